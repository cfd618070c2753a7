"""State what is signed: the digests of all files of a release, its name and the time ([InToto2023], Statement v1)."""

import datetime
from pathlib import Path
from typing import Any

from tasks.errors import Refused
from tasks.store import digest, read_published_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"  # the name of the format; nothing is fetched
PREDICATE_TYPE = "urn:murmuration:release:v1"
SIGNATURE = "signature.json"


def state_release(published: Path) -> dict[str, Any]:
    """Return the statement about the files in the directory of a release; its time is the manifest's."""
    manifest = read_published_json(published / "manifest.json")
    names = sorted({"manifest.json", *manifest["files"]})
    if any(Path(name).name != name for name in names):
        raise ValueError("a file of the manifest lies elsewhere")
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest(published / name)}} for name in names],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "release": manifest["release"],
            "snapshot": manifest["snapshot"],
            "revision": manifest.get("revision", {}).get("number", 0),
            "signedAt": manifest["created_at"],
        },
    }


def compare(published: Path, statement: dict[str, Any]) -> None:
    """Refuse a release whose files are not exactly those of the statement."""
    try:
        there = state_release(published)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise _refused("files of the manifest are missing or the manifest cannot be read") from None
    present = {f.relative_to(published).as_posix() for f in published.rglob("*") if not f.is_dir()}
    signed = {one["name"] for one in there["subject"]} | {SIGNATURE}
    if unsigned := sorted(present - signed):
        raise _refused(f"{len(unsigned)} files are not part of what was signed")
    if there != statement:
        raise _refused(_difference(there, statement))


def signed_at(statement: dict[str, Any]) -> datetime.datetime:
    """Return when the statement says that it was signed."""
    try:
        moment = datetime.datetime.fromisoformat(statement["predicate"]["signedAt"])
    except (LookupError, TypeError, ValueError):
        raise _refused("the statement has no time of signing") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _difference(there: dict[str, Any], statement: dict[str, Any]) -> str:
    """Say which files differ; names are those of the files that are there."""
    try:
        stated = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    except (LookupError, TypeError):
        return "the statement names no files"
    changed = [one["name"] for one in there["subject"] if stated.get(one["name"]) != one["digest"]["sha256"]]
    return f"not as signed: {', '.join(changed)}" if changed else "the statement is about another release"


def _refused(what: str) -> Refused:
    return Refused(
        what, where=SIGNATURE, remedy="fetch the release again from its owner; do not use these files"
    )
