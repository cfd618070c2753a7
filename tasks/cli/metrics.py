"""Print figures for monitoring: age, verdict, risk, classes, people who wait, budget, CPU time of steps."""

import argparse
import os
from pathlib import Path

from tasks.cli._command import CommandResult, add_store
from tasks.cli.calendar import RELEASES, configs_of

HELP = "print figures of the releases for monitoring, as OpenMetrics text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release, the file to write, and the store."""
    text = f"release file (TOML); without it every release in {RELEASES}"
    parser.add_argument("config", metavar="CONFIG", nargs="?", default=None, help=text)
    text = "write the text into this file at once, for a collector that reads text files"
    parser.add_argument("--out", default=None, metavar="FILE", help=text)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read store and ledgers; nothing of them is changed."""
    from tasks.store import Store
    from tasks.telemetry.openmetrics import metrics

    configs, _ = configs_of(options.config)
    text = metrics(configs.values(), Store(options.store))
    answer = {"status": "read", "metrics": text}
    if options.out is None:
        return CommandResult(answer, plain=text)
    _replace(Path(options.out), text)
    return CommandResult({"status": "written", "file": options.out}, end=(f"Written: {options.out}",))


def _replace(path: Path, text: str) -> None:
    """Write a file whole, readable by the owner alone: a collector never sees half of it."""
    partial = path.with_name(f".{path.name}.partial")
    with os.fdopen(
        os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
    partial.replace(path)
