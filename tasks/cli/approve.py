"""Let a candidate that passed the gate out: a person approves it, and it is published."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult, require_local

HELP = "approve a candidate that passed the gate, and publish it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the candidate."""
    parser.add_argument(
        "candidate",
        metavar="CANDIDATE",
        help="directory of the candidate, as `murmur run` named it, or private directory of the release",
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Verify that the candidate is what the gate passed, record who approves it and when, and publish it."""
    from tasks.cli._display import progress_bars
    from tasks.data.approval import find_candidate, record_approval, require_passed
    from tasks.pipeline import code_version
    from tasks.progress import StepProgress
    from tasks.series.publication import publish
    from tasks.store import exclusive, owner_only

    require_local(options.candidate, "CANDIDATE")
    candidate = find_candidate(Path(options.candidate))
    with exclusive(candidate.private, candidate.store), owner_only(), progress_bars() as progress:
        code = code_version()
        record = record_approval(candidate, require_passed(candidate, code))
        step = StepProgress("publish", progress)
        manifest = publish(
            candidate.place, candidate.published, candidate.private, candidate.store, step, code=code
        )
        step.finish()
    answer = {
        "status": "published",
        "published": str(candidate.published),
        "private": str(candidate.private),
        "report": str(candidate.published / "report.html"),
        **record,
        "counts": manifest["counts"],
    }
    return CommandResult(answer)
