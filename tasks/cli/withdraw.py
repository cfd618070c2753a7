"""Take a release back: a tombstone with the reason takes its place."""

import argparse
import sys

from tasks.cli._command import CommandResult, add_snapshot, add_store
from tasks.config import load, snapshot_date

HELP = "take a published release back: a tombstone with the reason takes its place; it still counts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release, the snapshot, the reason and the store."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    add_snapshot(parser, required=True)
    text = "why, in one line; it is published, so it must not name anybody"
    parser.add_argument("--reason", required=True, metavar="TEXT", help=text)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Withdraw the newest offered revision of the snapshot; inform Airflow, where one is configured."""
    from tasks.series.withdrawal import withdraw
    from tasks.stack.announce import announce
    from tasks.store import Store

    config, snapshot = load(options.config), snapshot_date(options.snapshot)
    store = Store(options.store)
    answer = withdraw(store, config.population, config.release.name, snapshot.isoformat(), options.reason)
    told = announce(answer["event"])
    if not told["event_sent"]:
        print(told["announcement"], file=sys.stderr)  # noqa: T201 - consumers of the asset do not know yet
    return CommandResult({**answer, **told})
