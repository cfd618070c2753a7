"""The candidate: a release in the published form, still private, waiting for the gate.

candidate/   groups.parquet members.parquet items.parquet manifest.json     what the public would get
private/     membership.parquet utility/ [added.parquet curve.json]         what only the owner may see
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks import profiles
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.store import digest, link, read_json, write_json

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Candidate:
    """Where a candidate lies."""

    public: Path
    private: Path


def build(job: Job, groups: Path, labels: np.ndarray, utility: Path) -> Candidate:
    """Bring together the group profiles, the pseudonyms of their members, the items and the promises."""
    candidate = Candidate(job.out / "candidate", job.out / "private")
    ratings = Ratings(job.ratings)
    ids = ratings.user_ids()
    write_release(job, candidate, groups, ids, pseudonyms(job, ids), labels)
    shutil.copytree(utility, candidate.private / "utility", ignore=shutil.ignore_patterns("step.json", ".*"))
    if (job.ratings / "added.parquet").exists():
        _write_added(job, ratings, candidate)
    if (job.ratings / "curve.json").exists():
        link(job.ratings / "curve.json", candidate.private / "curve.json")
    return candidate


def _write_added(job: Job, ratings: Ratings, candidate: Candidate) -> None:
    """What was added to whom, by name: the owner puts it back into recommendations (tasks/reverse.py)."""
    added = pq.read_table(job.ratings / "added.parquet")
    owner = pq.read_table(candidate.private / "membership.parquet", columns=["user", "pseudonym"])
    name = owner.column("pseudonym").take(pc.index_in(ratings.user_ids(), value_set=owner.column("user")))
    user, item = added.column("user"), pa.array(ratings.item_ids(), pa.string())
    columns = {
        "user": ratings.user_ids().take(user),
        "pseudonym": name.take(user),
        "item": item.take(added.column("item")),
        "rating": added.column("rating"),
    }
    pq.write_table(pa.table(columns), candidate.private / "added.parquet", compression="zstd")


def pseudonyms(job: Job, ids: pa.Array) -> pa.Array:
    """The names people have in this release; other ones in its shadow, so that nobody can join the two."""
    name, purpose = job.config.release.name, job.run.purpose
    known_as = name if purpose == "release" else f"{purpose} of {name}"
    return pa.array(job.run.key.pseudonyms(known_as, job.snapshot.isoformat(), ids.to_pylist()), pa.string())


def write_release(
    job: Job, place: Candidate, groups: Path, ids: pa.Array, names: pa.Array, labels: np.ndarray
) -> None:
    """The published files, and the owner's membership; people labelled −1 are in the latter only."""
    for directory in (place.public, place.private):
        directory.mkdir(exist_ok=True)
    link(groups, place.public / "groups.parquet")
    items = pa.array(Ratings(job.ratings).item_ids(), pa.string())
    pq.write_table(pa.table({"item": items}), place.public / "items.parquet")
    _write_members(ids, names, labels, place)
    users = int((labels >= 0).sum())
    files = {name: digest(place.public / name) for name in ("items.parquet", "members.parquet")}
    files["groups.parquet"] = _known_digest(groups)
    write_json(place.public / "manifest.json", _manifest(job, place, users, len(items), files))


def _known_digest(file: Path) -> str:
    """The digest its step closed with: a large file need not be read again, and one changed since fails the gate."""
    return read_json(file.parent / "step.json")["files"][file.name]


def _write_members(ids: pa.Array, names: pa.Array, labels: np.ndarray, place: Candidate) -> None:
    """members.parquet for everybody, membership.parquet for the owner; both in the order of the pseudonyms."""
    owner = pa.table({"user": ids, "pseudonym": names, "group": pa.array(labels, pa.int32())})
    owner = owner.sort_by("pseudonym")  # an order that says nothing about the source
    listed = owner.filter(pc.greater_equal(owner.column("group"), 0))
    members = pa.table({"user": listed.column("pseudonym"), "group": listed.column("group")})
    pq.write_table(members, place.public / "members.parquet")
    pq.write_table(owner, place.private / "membership.parquet")


def _manifest(
    job: Job, candidate: Candidate, users: int, items: int, files: dict[str, str]
) -> dict[str, Any]:
    config, groups = job.config, candidate.public / "groups.parquet"
    coding = profiles.Coding.of(config)
    return {
        "schema_version": SCHEMA_VERSION,
        "release": config.release.name,
        "snapshot": job.snapshot.isoformat(),
        "method": config.privacy.method,
        "privacy": config.privacy.model_dump(include={"k", "l", "b", "min_contributors"}),
        "counts": {
            "users": users,
            "items": items,
            "groups": sum(profiles.row_groups(groups)),
            "ratings": profiles.count_ratings(groups, items, coding.dtype),
        },
        "rating_scale": list(config.source.scale),
        "rating_step": coding.step,
        "rating_encoding": coding.encoding,
        "unit": coding.unit,
        "series": "unchecked",
        "withheld": _withheld(job.ratings),
        "files": files,
    }


def _withheld(ratings: Path) -> dict[str, Any]:
    """Whom and what a step before left out of the ratings."""
    path = ratings / "withheld.json"
    return read_json(path) if path.exists() else {"users": 0, "items": 0, "why": ""}
