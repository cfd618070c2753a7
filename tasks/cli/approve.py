"""Let a candidate that passed the gate out: a person approves it, and it is published; or one of several signs it."""

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.cli._command import CommandResult, require_local
from tasks.errors import UsageError

if TYPE_CHECKING:
    from tasks.data.approval import JudgedCandidate

HELP = "approve a candidate that passed the gate, and publish it; or sign it as one of its approvers (--key)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the candidate and the key."""
    parser.add_argument(
        "candidate",
        metavar="CANDIDATE",
        help="directory of the candidate, as `murmur run` named it, or private directory of the release",
    )
    text = "sign with this private key as one of release.approvers; nothing is published by that"
    parser.add_argument("--key", default=None, metavar="FILE", help=text)


def run(options: argparse.Namespace) -> CommandResult:
    """Verify that the candidate is what the gate passed; sign it, or record who approves it and publish it."""
    from tasks.data.approval import (
        find_candidate,
        record_approval,
        require_passed,
        require_signatures,
    )
    from tasks.pipeline import code_version
    from tasks.store import exclusive, owner_only

    require_local(options.candidate, "CANDIDATE")
    candidate = find_candidate(Path(options.candidate))
    code = code_version()
    with exclusive(candidate.private, candidate.store), owner_only():
        digest = require_passed(candidate, code)
        if options.key is not None:
            return _sign(candidate, digest, Path(options.key))
        require_signatures(candidate.store, candidate.published, candidate.private, candidate.place)
        record = record_approval(candidate, digest)
        counts = _publish(candidate, code)
    answer = {
        "status": "published",
        "published": str(candidate.published),
        "private": str(candidate.private),
        "report": str(candidate.published / "report.html"),
        **record,
        "counts": counts,
    }
    return CommandResult(answer)


def _publish(candidate: "JudgedCandidate", code: str) -> dict[str, int]:
    """Publish, and return the counts of the release."""
    from tasks.cli._display import progress_bars
    from tasks.progress import StepProgress
    from tasks.series.publication import publish

    with progress_bars() as progress:
        step = StepProgress("publish", progress)
        manifest = publish(
            candidate.place, candidate.published, candidate.private, candidate.store, step, code=code
        )
        step.finish()
    return dict(manifest["counts"])


def _sign(candidate: "JudgedCandidate", digest: str, file: Path) -> CommandResult:
    """Write a signature beside the candidate, and say how many there are."""
    from tasks.data.actor import triggers_of
    from tasks.data.approval import count_signatures
    from tasks.signatures.approvals import Subject, require_entitled, sign_approval
    from tasks.signatures.approvers import Approvers
    from tasks.signatures.envelope import key_id
    from tasks.signatures.owner_keys import read_private

    approvers = Approvers(candidate.store)
    rule = approvers.rule_of(candidate.release)
    if rule is None:
        raise UsageError(
            "this release has no approvers whose signatures are needed",
            where="--key",
            remedy="leave --key out; or set release.approvers and run the release again",
        )
    key, triggers = read_private(file), triggers_of(candidate.private)
    now = datetime.datetime.now(datetime.UTC)
    person = require_entitled(rule, approvers.people(), key_id(key.public_key()), triggers, now)
    subject = Subject(candidate.release, candidate.snapshot.isoformat(), digest)
    written = sign_approval(candidate.private, candidate.store.root, subject, key, triggers=triggers)
    count = count_signatures(candidate.store, candidate.private, digest, rule)
    left = max(0, rule.approvals - len(count.valid))
    publish = (
        "somebody who is no approver of it runs the release again, or clears the task publish in Airflow"
    )
    return CommandResult(
        {
            "status": "signed",
            "candidate_digest": digest,
            "approver": person.name,
            "keyid": person.keyid,
            "signature": str(written),
            "triggered_by": sorted(triggers),
            "approved_by": sorted(count.valid),
            "approvals_needed": rule.approvals,
            "not_counted": list(count.rejected),
            "next": f"{left} more must sign" if left else publish,
        }
    )
