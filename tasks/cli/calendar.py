"""Show every snapshot of the releases: published, refused, withdrawn, missing, or still to come."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult, add_store
from tasks.config import ReleaseConfig, load
from tasks.config.release_files import find
from tasks.errors import UsageError

HELP = "show which snapshots are due, published, refused, withdrawn or missing"
RELEASES = Path("dags/releases")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release, how far to look ahead, and the store."""
    text = f"release file (TOML); without it every release in {RELEASES}"
    parser.add_argument("config", metavar="CONFIG", nargs="?", default=None, help=text)
    text = "how many snapshots that are not due yet (default: 1)"
    parser.add_argument("--coming", type=int, default=1, metavar="N", help=text)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read schedule, ledger and store; nothing is changed, and no ledger is made where there is none."""
    from tasks.series.calendar import describe_calendar
    from tasks.store import Store

    if options.coming < 0:
        raise UsageError("fewer than no snapshot", where="--coming", remedy="give 0, 1, 2, …")
    store = Store(options.store)
    configs, errors = configs_of(options.config)
    unusable = [{"what": one.what, "where": one.where, "remedy": one.remedy} for one in errors]
    calendars = [
        {"config": str(path), **describe_calendar(config, store, coming=options.coming)}
        for path, config in configs.items()
    ]
    return CommandResult({"status": "read", "calendars": calendars, "unusable": unusable})


def configs_of(named: str | None) -> tuple[dict[Path, ReleaseConfig], list[UsageError]]:
    """Return the release that was named, else all of the project, and the files that cannot be used."""
    if named:
        return {Path(named): load(named)}, []
    configs, errors = find(RELEASES)
    if not configs and not errors:
        raise UsageError(
            "there is no release file",
            where=str(RELEASES),
            remedy="name one after the command; or write one: murmur init NAME",
        )
    return configs, errors
