"""Undo the effect of added items on a recommender's output (the reverse operator of [RFPP])."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult

HELP = "recommend items added by [obfuscation] again, as if they had not been in the user's history"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the recommendations, the private directory and the file to write."""
    parser.add_argument(
        "recommendations",
        metavar="RECOMMENDATIONS",
        help="csv file: user (pseudonym or source id), item, score [, rank]",
    )
    parser.add_argument("--private", required=True, metavar="DIR", help="private directory of the release")
    parser.add_argument("--out", required=True, metavar="FILE", help="csv file to write; must not exist yet")


def run(options: argparse.Namespace) -> CommandResult:
    """Write the restored recommendations, readable by the owner alone."""
    from tasks.obfuscators._recommendation_restorer import restore
    from tasks.store import owner_only

    with owner_only():
        return CommandResult(restore(Path(options.recommendations), Path(options.private), Path(options.out)))
