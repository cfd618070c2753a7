"""Validate a configuration and its source without making a release."""

import argparse
import functools

from tasks.cli._command import CommandResult, add_snapshot
from tasks.config import load, snapshot_date

HELP = "validate a configuration and its source without running it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration and the snapshot."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    add_snapshot(parser, required=False)


def run(options: argparse.Namespace) -> CommandResult:
    """Validate the file, and read its source once."""
    from tasks.cli._display import progress_bars
    from tasks.cli._preview import preview
    from tasks.cli._short_ends import end_of_check

    config = load(options.config)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else config.release.start_date
    with progress_bars() as progress:
        seen = preview(config, snapshot, functools.partial(progress, "check"))
    end = end_of_check(seen, options.config, snapshot.isoformat())
    return CommandResult({"status": "valid", "config": options.config, **seen}, end=tuple(end))
