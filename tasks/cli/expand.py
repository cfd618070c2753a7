"""Write a release as ordinary (user, item, rating) rows for recommender toolkits."""

import argparse
import contextlib
import functools
from pathlib import Path

from tasks.cli._command import CommandResult, copied_here, require_offered

HELP = "write a release as ordinary (user, item, rating) rows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release, the format and the place to write to."""
    parser.add_argument(
        "published", metavar="PUBLISHED", help="the published release: a directory, or s3://…"
    )
    parser.add_argument(
        "--to",
        required=True,
        choices=["csv", "movielens", "recbole", "support"],
        help="format of the rows; support: "
        "a csv file of (group, size, item, raters), of releases with counts of raters",
    )
    parser.add_argument(
        "out", metavar="OUT", help="csv, support: a file; movielens, recbole: a directory; must not exist yet"
    )
    parser.add_argument(
        "--earlier",
        metavar="DIR",
        nargs="+",
        default=[],
        help="all earlier releases of the same series, in any order: profiles of older cohorts are re-estimated with "
        "what newer groups say about the items",
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Write the rows, block by block."""
    from tasks.cli._display import progress_bars
    from tasks.data.expand import expand

    with contextlib.ExitStack() as copies:
        published, *earlier = (
            copies.enter_context(copied_here(place)) for place in (options.published, *options.earlier)
        )
        for place in (*earlier, published):
            require_offered(place)
        if options.to == "support":
            from tasks.data.expand_support import expand_support

            return CommandResult(expand_support(published, Path(options.out)))
        with progress_bars() as progress:
            report = functools.partial(progress, "expand")
            return CommandResult(expand(published, options.to, Path(options.out), report, earlier))
