"""Hold a person's approval of a candidate: who let exactly these bytes out, and when.

With `release.approval = true` a release that passed the gate is published only when a person approves it: in Airflow
(the task `approve`), or with `murmur approve`, which leaves the record described here in the private directory. With
`release.approvers` the signatures of several people are needed (tasks/signatures/approvals.py); publication itself
asks for them here.
"""

import datetime
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.config import ReleaseConfig
from tasks.data.actor import account_name, acting, record_trigger, triggers_of
from tasks.errors import Refused, UsageError
from tasks.signatures.approvals import Count, Subject, count_approvals, missing
from tasks.signatures.approvers import Approvers, Rule
from tasks.store import Store, digest_of, files_below, owner_only, read_json, write_json

RECORD = "approval.json"


class AwaitsApproval(Refused):
    """Report that the gate passed a release and a person has not approved it yet."""


@dataclass(frozen=True)
class JudgedCandidate:
    """Represent what the step `validate` left of one release: `place` has candidate/, private/ and step.json."""

    store: Store
    release: str
    snapshot: datetime.date
    place: Path

    @property
    def private(self) -> Path:
        """Return the owner's directory of the release."""
        return self.place.parents[1]

    @property
    def published(self) -> Path:
        """Return where the release is published."""
        return self.store.published(self.release, self.snapshot)


def find_candidate(path: Path) -> JudgedCandidate:
    """Return the candidate at `path`: its directory, the one above it, or the private directory of the release."""
    path = path.resolve()
    for place in (path, path.parent, path / "work" / "validate"):
        candidate = _candidate_at(place)
        if candidate is not None:
            return candidate
    raise UsageError(
        "there is no candidate here",
        where=str(path),
        remedy="give the directory that `murmur run` named: <store>/private/<name>/<snapshot>/work/validate/candidate",
    )


def _candidate_at(place: Path) -> JudgedCandidate | None:
    """Return the candidate of <store>/private/<name>/<snapshot>/work/validate; None where the place is another."""
    names = place.parts[-5:]
    if len(names) < 5 or (names[0], *names[3:]) != ("private", "work", "validate"):
        return None
    if not (place / "candidate").is_dir():
        return None
    try:
        snapshot = datetime.date.fromisoformat(names[2])
    except ValueError:
        return None
    return JudgedCandidate(Store(place.parents[4]), names[1], snapshot, place)


def require_passed(candidate: JudgedCandidate, code_version: str) -> str:
    """Return the digest of a candidate that the gate of this version passed.

    One that it refused, or that has changed since, is refused.
    """
    closing = candidate.place / "step.json"
    if not closing.exists():
        raise Refused(
            "the gate has not passed this candidate",
            where=str(candidate.place),
            remedy="read its report, change what it asks for, and run it again",
        )
    step = read_json(closing)
    there = {name: digest for name, digest in files_below(candidate.place).items() if name != closing.name}
    if there != step["files"]:
        raise Refused(
            "the candidate is not what the gate examined",
            where=str(candidate.place),
            remedy="find out who changed it, then run it again",
        )
    manifest = read_json(candidate.place / "candidate" / "manifest.json")
    verdict = read_json(candidate.place / "private" / "verdict.json")
    if not verdict["passed"] or verdict["failed"]:
        raise Refused("the gate refused this candidate", where=str(candidate.place), remedy="read its report")
    if (manifest["release"], manifest["snapshot"]) != (candidate.release, candidate.snapshot.isoformat()):
        raise Refused(
            "the candidate is that of another release or snapshot",
            where=str(candidate.place),
            remedy="run it again; a candidate is approved where it was made",
        )
    if step.get("code") != code_version:
        raise Refused(
            "another version of the program judged this candidate",
            where=str(closing),
            remedy="run it again, so that the gate of this version judges it",
        )
    return digest_of(step["files"])


def record_approval(candidate: JudgedCandidate, digest: str) -> dict[str, Any]:
    """Write down who approves a candidate, and return that; an approval of the same bytes stays as it is."""
    if is_approved(candidate.private, digest):
        return read_json(candidate.private / RECORD)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    record = {
        "candidate_digest": digest,
        "approved_by": account_name(),
        "approved_by_uid": os.getuid(),
        "approved_at": now.isoformat(),
        "approved_in": "command line",
    }
    write_json(candidate.private / RECORD, record)
    return record


def record_approval_in_airflow(private: Path, digest: str, *, user: str, at: str) -> dict[str, Any]:
    """Write down which account of Airflow approved a candidate, and return that; an approval of the same bytes stays.

    A rule that needs several people (release.approvers) counts signatures, which are made outside Airflow: this record
    says who pressed the button, and proves nothing against somebody who may change Airflow's database.
    """
    if is_approved(private, digest):
        return read_json(private / RECORD)
    record = {"candidate_digest": digest, "approved_by": user, "approved_at": at, "approved_in": "airflow"}
    write_json(private / RECORD, record)
    return record


def is_approved(private: Path, digest: str) -> bool:
    """Return whether a person has approved exactly these bytes."""
    path = private / RECORD
    return path.exists() and read_json(path)["candidate_digest"] == digest


def approval_of(private: Path) -> dict[str, Any] | None:
    """Return what the ledger keeps about the approval of a release that is being published; None: there was none."""
    path = private / RECORD
    if not path.exists():
        return None
    return {name: value for name, value in read_json(path).items() if name != "approved_by_uid"}


def require_same(found: str, approved: str, private: Path) -> None:
    """Refuse to publish another candidate than the one that a person approved in Airflow, both given by digest."""
    if found != approved:
        raise Refused(
            "this is another candidate than the approved one: something was published since, and it was planned anew",
            where=str(private),
            remedy="clear the tasks validate and approve, so that a person decides about the new candidate",
        )


def begin_run(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> None:
    """Hold the release file to the store's rule of approvers, and write down who triggered this run."""
    asked = config.release
    wanted = Rule(tuple(asked.approvers), asked.approvals) if asked.approvers else None
    with owner_only():
        Approvers(store).require_rule(asked.name, wanted)
        record_trigger(store.private(asked.name, snapshot), below=store.root)


def require_signatures(store: Store, published: Path, private: Path, validated: Path) -> None:
    """Refuse to publish a candidate that too few of the release's approvers have signed.

    Publication calls this under its lock, whoever runs it: no state of a task in Airflow is asked. A release that is
    published already stays as it is. What is left then in the private directory is the approval of these bytes, if
    there is any: the ledger's log names it.
    """
    if (published / "manifest.json").exists():
        return
    digest = digest_of(read_json(validated / "step.json")["files"])
    if not is_approved(private, digest):
        (private / RECORD).unlink(missing_ok=True)
    rule = Approvers(store).rule_of(published.parent.name)
    if rule is None:
        return
    publisher = acting().name
    count = count_signatures(store, private, digest, rule, {publisher} if publisher else set())
    if lines := list(missing(rule, count)):
        raise AwaitsApproval(
            "; ".join(lines),
            where=f"report {validated / 'candidate' / 'report.html'}",
            remedy=f"each approver reads the report and runs: murmur approve {validated / 'candidate'} --key FILE; "
            "then somebody who is no approver of it runs this step again",
        )
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    record = {"candidate_digest": digest, "approved_by": sorted(count.valid), "keys": count.valid}
    with owner_only():
        write_json(private / RECORD, {**record, "approved_at": now.isoformat(), "approved_in": "signatures"})


def count_signatures(
    store: Store, private: Path, digest: str, rule: Rule, publishers: Collection[str] = ()
) -> Count:
    """Count the signatures over a candidate in a release's private directory; whoever publishes it is no approver."""
    return count_approvals(
        private,
        Subject(private.parent.name, private.name, digest),
        rule,
        Approvers(store).people(),
        triggers=triggers_of(private) | set(publishers),
    )


def awaits_approval(release: str, validated: Path) -> AwaitsApproval:
    """Return the refusal of a release that passed the gate and that no person has approved."""
    candidate = validated / "candidate"
    return AwaitsApproval(
        "the gate passed this release; it is not published before a person approves it (release.approval)",
        where=f"report {candidate / 'report.html'}",
        remedy=f"read the report, then run: murmur approve {candidate}   (or run the DAG release_{release}, which asks "
        "for the approval in Airflow)",
    )
