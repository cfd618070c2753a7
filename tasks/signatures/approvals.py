"""Sign that a candidate may be published, and count the signatures that count.

    private/<name>/<snapshot>/approvals/<digest>-<key>.json     one signature each, in a DSSE envelope ([Dsse2021])

A signature is over the digest of all files of the candidate, with the names of those who had triggered its runs. It
counts if the rule of the release names its key, the key is valid now and was when it signed, and its person triggered
no run of the snapshot. A person counts once, with however many keys.
"""

import datetime
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks.errors import Refused, UsageError
from tasks.signatures.approvers import Approver, Rule, named_by
from tasks.signatures.envelope import key_id, open_envelope, seal
from tasks.signatures.statement import STATEMENT_TYPE
from tasks.store import make_private, owner_only, read_json, write_json

APPROVAL_TYPE = "urn:murmuration:approval:v1"
DIRECTORY = "approvals"
LARGEST_FILE = 2**16
AHEAD = datetime.timedelta(minutes=5)  # by which the clocks of two machines may differ


@dataclass(frozen=True)
class Subject:
    """Name what is approved: a candidate of a release, by the digest of all its files."""

    release: str
    snapshot: str
    digest: str


@dataclass(frozen=True)
class Count:
    """Hold whose signatures count (names, with the id of a key), and why others do not."""

    valid: dict[str, str]
    rejected: tuple[str, ...]


def sign_approval(
    private: Path,
    below: Path,
    subject: Subject,
    key: Ed25519PrivateKey,
    *,
    triggers: Collection[str],
    now: datetime.datetime | None = None,
) -> Path:
    """Write a signature into the owner's directory of the release, and return where."""
    moment = (now or datetime.datetime.now(datetime.UTC)).replace(microsecond=0)
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f"{subject.release}/{subject.snapshot}", "digest": {"sha256": subject.digest}}],
        "predicateType": APPROVAL_TYPE,
        "predicate": {"triggeredBy": sorted(triggers), "signedAt": moment.isoformat()},
    }
    path = private / DIRECTORY / f"{subject.digest[:16]}-{key_id(key.public_key())[:16]}.json"
    with owner_only():
        make_private(path.parent, below=below)
        write_json(path, seal(statement, key))
    return path


def require_entitled(
    rule: Rule, people: dict[str, Approver], keyid: str, triggers: Collection[str], now: datetime.datetime
) -> Approver:
    """Return the person with this key; refuse one whose signature would not count."""
    found = next((one for one in named_by(rule, people) if one.keyid == keyid), None)
    if found is None:
        raise UsageError(
            "this key is not one of an approver of this release",
            where=f"--key, id {keyid[:16]}…",
            remedy="see release.approvers, and `murmur keys list` for the keys of the people named there",
        )
    if why := _not_counted(found, now, now, triggers):
        raise Refused(why, where=f"--key, id {keyid[:16]}…", remedy="another approver must sign")
    return found


def count_approvals(
    private: Path,
    subject: Subject,
    rule: Rule,
    people: dict[str, Approver],
    *,
    triggers: Collection[str],
    now: datetime.datetime | None = None,
) -> Count:
    """Count the signatures beside a candidate; one that does not count is named with the reason.

    Whoever triggered a run by what any of the counted signatures states is no approver, either: a record of triggers
    that was removed after the first signature does not help.
    """
    moment = now or datetime.datetime.now(datetime.UTC)
    entitled = {one.keyid: one for one in named_by(rule, people)}
    opened, rejected = [], []
    for path in sorted((private / DIRECTORY).glob("*.json")):
        try:
            opened.append(_open(path, subject, entitled))
        except Refused as problem:
            rejected.append(f"{path.name}: {problem.what}")
    everybody = {*triggers, *(name for _, _, named in opened for name in named)}
    valid: dict[str, str] = {}
    for person, signed_at, _ in opened:
        if why := _not_counted(person, signed_at, moment, everybody):
            rejected.append(why)
        else:
            valid.setdefault(person.name, person.keyid)
    return Count(valid, tuple(rejected))


def _open(
    path: Path, subject: Subject, entitled: dict[str, Approver]
) -> tuple[Approver, datetime.datetime, tuple[str, ...]]:
    """Return who signed, when, and who is said to have triggered runs; refuse what is no signature over `subject`."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError
        envelope = read_json(path)
    except (OSError, ValueError, RecursionError):
        raise _no_approval("it cannot be read") from None
    statement, signers = open_envelope(envelope, {name: one.public for name, one in entitled.items()})
    try:
        about = {
            "_type": statement["_type"],
            "subject": statement["subject"],
            "predicateType": statement["predicateType"],
        }
        signed_at = datetime.datetime.fromisoformat(statement["predicate"]["signedAt"])
        triggers = tuple(str(one) for one in statement["predicate"]["triggeredBy"])
        signed_at.astimezone(datetime.UTC)
    except (LookupError, TypeError, ValueError):
        raise _no_approval("it is no approval") from None
    if about != {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f"{subject.release}/{subject.snapshot}", "digest": {"sha256": subject.digest}}],
        "predicateType": APPROVAL_TYPE,
    }:
        raise _no_approval("it is about another candidate")
    if signed_at.tzinfo is None or len(signers) != 1:
        raise _no_approval("it is not one person's")
    return entitled[signers[0]], signed_at, triggers


def _not_counted(
    person: Approver, signed_at: datetime.datetime, now: datetime.datetime, triggers: Collection[str]
) -> str | None:
    words = f"the key {person.keyid[:16]}… of {person.name}"
    if why := person.why_not(signed_at) or person.why_not(now):
        return f"{words} {why}"
    if signed_at > now + AHEAD:
        return f"{words} signed in the future"
    if person.is_one_of(sorted(triggers)):
        return f"{person.name} triggered a run of this snapshot"
    return None


def _no_approval(what: str) -> Refused:
    return Refused(what, where=DIRECTORY)


def missing(rule: Rule, count: Count) -> Iterator[str]:
    """Yield what is missing, and why signatures that are there do not count; nothing where the rule is met."""
    if len(count.valid) < rule.approvals:
        have = ", ".join(sorted(count.valid)) or "nobody"
        yield f"{rule.approvals} approvers must sign this candidate, and {len(count.valid)} did ({have})"
        yield from (f"not counted: {one}" for one in count.rejected)
