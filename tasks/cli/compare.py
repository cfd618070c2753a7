"""Compare risk and utility of several methods on the same ratings."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult, add_snapshot, add_store, local_store
from tasks.config import load, snapshot_date

HELP = "compare risk and utility of several methods; publishes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, the methods and where results go."""
    parser.add_argument(
        "config", metavar="CONFIG", help="release file (TOML) for all settings not given below"
    )
    add_snapshot(parser, required=True)
    parser.add_argument(
        "--methods",
        required=True,
        help="methods separated by commas, each with optional settings: predictive-padded,perturbation:amount=0.5",
    )
    parser.add_argument("--plot", default=None, metavar="FILE", help="write the plot to this file, as SVG")
    parser.add_argument("--html", default=None, metavar="FILE", help="write the result as a page, too")
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Make and judge a candidate per method; a refused one is a result like any other."""
    from tasks.cli._display import progress_bars
    from tasks.cli._kernels import compile_once
    from tasks.studies.compare.comparison import compare
    from tasks.studies.compare.page import write_page
    from tasks.studies.html_pages import require_writable

    config, snapshot = load(options.config), snapshot_date(options.snapshot)
    plot = Path(options.plot) if options.plot else None
    page = None if options.html is None else require_writable(Path(options.html))
    store = local_store(options.store)
    compile_once()
    with progress_bars() as progress:
        found = compare(config, snapshot, store, options.methods, plot=plot, progress=progress)
    if page is not None:
        write_page(found, f"{config.release.name}, snapshot {snapshot}", page)
    return CommandResult({**found, "page": None if page is None else str(page)})
