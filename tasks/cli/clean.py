"""Remove the intermediate files of published snapshots."""

import argparse

from tasks.cli._command import CommandResult, add_store
from tasks.errors import UsageError

HELP = "remove the intermediate files of published snapshots, whatever their age"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release and the store."""
    parser.add_argument("name", metavar="NAME", help="name of the release")
    text = "also refused candidates that are older than N days, with their intermediate files"
    parser.add_argument("--refused-days", type=int, default=None, metavar="N", help=text)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Remove what the steps left; releases and the owner's files stay."""
    from tasks.data.retention import sweep
    from tasks.series.publication import quiet
    from tasks.store import Store

    store = Store(options.store)
    if not (store.root / "private" / options.name).is_dir():
        raise UsageError(
            f"there is no release '{options.name}' in this store",
            where=str(store.root),
            remedy="check the name and --store",
        )
    if options.refused_days is not None and options.refused_days < 0:
        raise UsageError("fewer than no days", where="--refused-days", remedy="give 0, 1, 2, …")
    with quiet(store):  # an erasure reads what is removed here
        removed = sweep(store, options.name, older_than_days=0, refused_days=options.refused_days)
    return CommandResult({"status": "cleaned", "removed": [str(directory) for directory in removed]})
