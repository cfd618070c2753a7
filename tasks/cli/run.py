"""Make one release: all steps, the gate, publication."""

import argparse
import sys

from tasks.cli._command import DONE, REFUSED, CommandResult, add_snapshot, add_store
from tasks.config import load, snapshot_date
from tasks.errors import Refused

HELP = "make one release: all steps, the gate, publication"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, the snapshot and the store."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    add_snapshot(parser, required=True)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Run the same steps as the DAG, and measure CPU time and memory."""
    from tasks import pipeline
    from tasks.cli._display import progress_bars
    from tasks.cli._peak_memory import PeakMemory
    from tasks.cli._run_result import describe
    from tasks.data.approval import AwaitsApproval
    from tasks.store import Store

    config, snapshot = load(options.config), snapshot_date(options.snapshot)
    store = Store(options.store)
    seconds: dict[str, float] = {}
    refusal: Refused | None = None
    with PeakMemory() as memory, progress_bars() as progress:
        try:
            pipeline.run(config, snapshot, store, progress=progress, seconds=seconds)
        except Refused as problem:
            refusal = problem
    # A step whose earlier result is used takes no time.
    judged = bool({"validate", "publish"} & set(seconds)) or isinstance(refusal, AwaitsApproval)
    answer = describe(config, snapshot, store, refusal, judged=judged)
    if refusal:
        print(refusal, file=sys.stderr)  # noqa: T201 - why it was refused, whatever form the answer has
    answer |= {"seconds": seconds, "peak_rss_bytes": memory.peak_bytes}
    return CommandResult(answer, REFUSED if refusal else DONE)
