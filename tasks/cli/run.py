"""Make one release: all steps, the gate, publication."""

import argparse
import datetime
import sys
from typing import TYPE_CHECKING, Any

from tasks.cli._command import (
    DONE,
    REFUSED,
    CommandResult,
    add_snapshot,
    add_store,
    local_store,
    naming_checks,
)
from tasks.config import ReleaseConfig, load, snapshot_date
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.store import Store

HELP = "make one release: all steps, the gate, publication"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, the snapshot and the store."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    add_snapshot(parser, required=True)
    add_store(parser)
    text = "after a refusal, try larger k without publishing anything, and say which would pass"
    parser.add_argument("--find-k", action="store_true", help=text)


def run(options: argparse.Namespace) -> CommandResult:
    """Run the same steps as the DAG, and measure CPU time and memory."""
    from tasks import formats
    from tasks.series.repeated import is_already_published
    from tasks.store import Store

    config, snapshot = load(options.config), snapshot_date(options.snapshot)
    if options.find_k:
        local_store(options.store)  # releases of other k are tried beside the real ones
    store, title = Store(options.store), f"{config.release.name} {snapshot}"
    published = is_already_published(config, snapshot, store)
    # Before the slow imports below; where a budget must pay for the run, ingest asks it before the source is touched.
    if not published and config.privacy.budget is None:
        formats.require_readable(config.source, snapshot)
    from tasks import pipeline
    from tasks.cli._display import progress_bars
    from tasks.cli._kernels import compile_once
    from tasks.cli._peak_memory import PeakMemory
    from tasks.cli._run_result import describe
    from tasks.cli._short_ends import end_of_run
    from tasks.data.approval import AwaitsApproval

    seconds: dict[str, float] = {}
    refusal: Refused | None = None
    if published:
        if options.json or options.verbose:
            print("This snapshot is published already; nothing was done.", file=sys.stderr)  # noqa: T201
        with PeakMemory() as memory:
            answer = describe(config, snapshot, store, None, judged=False)
        answer |= {"already_published": True, "seconds": {}, "peak_rss_bytes": memory.peak_bytes}
        return CommandResult(answer, DONE, tuple(end_of_run(answer, title, set())))
    compile_once()
    with PeakMemory() as memory, progress_bars() as progress:
        try:
            pipeline.run(config, snapshot, store, progress=progress, seconds=seconds)
        except Refused as problem:
            refusal = problem
    # A step whose earlier result is used takes no time.
    judged = bool({"validate", "publish"} & set(seconds)) or isinstance(refusal, AwaitsApproval)
    answer = describe(config, snapshot, store, refusal, judged=judged)
    if options.json or options.verbose:  # else the last lines say it
        if answer["refused_cohort"] and (not refusal or isinstance(refusal, AwaitsApproval)):
            print(answer["refused_cohort"]["why"], file=sys.stderr)  # noqa: T201 - as plainly as a refusal
        if refusal:
            print(refusal, file=sys.stderr)  # noqa: T201 - why it was refused, with what every check says
    if refusal and options.find_k:
        failed = [one["name"] for one in answer["checks"] if one["severity"] == "gate" and not one["passed"]]
        answer["larger_k"] = _try_larger_k(config, snapshot, store, failed)
    answer |= {"seconds": seconds, "peak_rss_bytes": memory.peak_bytes}
    end = end_of_run(answer, title, naming_checks(), refusal.remedy if refusal else "")
    return CommandResult(answer, REFUSED if refusal else DONE, tuple(end))


def _try_larger_k(
    config: ReleaseConfig, snapshot: datetime.date, store: "Store", failed: list[str]
) -> dict[str, Any] | None:
    """Find the k that would pass, and print it below the refusal; None where larger groups do not help."""
    from tasks import methods
    from tasks.cli._display import progress_bars
    from tasks.studies.larger_k import find_k, in_words

    if not methods.method(config).publishes_groups or not methods.depends_on_k(failed):
        found, words = None, "no larger k was tried: it would not help against what refused this release"
    else:
        with progress_bars() as progress:
            found = find_k(config, snapshot, store, progress)
        words = in_words(found)
    print(f"  {words}", file=sys.stderr)  # noqa: T201 - part of the refusal
    return found
