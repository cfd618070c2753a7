"""Validate a configuration and its source without making a release."""

import argparse

from tasks.cli._command import CommandResult, add_snapshot
from tasks.config import load, snapshot_date

HELP = "validate a configuration and its source without running it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration and the snapshot."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    add_snapshot(parser, required=False)


def run(options: argparse.Namespace) -> CommandResult:
    """Validate the file, and read a sample of its source."""
    from tasks.cli._preview import preview

    config = load(options.config)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else config.release.start_date
    return CommandResult({"status": "valid", "config": options.config, **preview(config, snapshot)})
