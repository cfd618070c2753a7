"""Reproduce a paper's tables on one data set."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult

HELP = "reproduce a paper's tables: the paper's figure and ours, side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the paper, the data set and where figures go."""
    parser.add_argument(
        "paper",
        metavar="PAPER",
        choices=["P0", "P1", "P2", "P3", "P4"],
        help="P0 Chang2009, P1 Zhang2006, P2 Frankowski2006, P3 Casino2015, P4 RFPP",
    )
    parser.add_argument(
        "--data", required=True, metavar="DIR", help="directory of one data set, such as …/ml-100k"
    )
    parser.add_argument("--plots", default=None, metavar="DIR", help="directory for the figures, as SVG")


def run(options: argparse.Namespace) -> CommandResult:
    """Run the study of the paper."""
    from importlib import import_module

    from tasks.cli._display import progress_bars

    study = import_module(f"tasks.studies.{options.paper.lower()}.tables")
    plots = Path(options.plots) if options.plots else None
    with progress_bars() as progress:
        return CommandResult(study.reproduce(Path(options.data), plots=plots, progress=progress))
