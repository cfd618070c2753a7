"""The candidate: a release in the published form, still private, waiting for the gate.

candidate/   groups.parquet members.parquet items.parquet manifest.json     what the public would get
private/     membership.parquet utility/                                    what only the owner may see
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks import profiles
from tasks.kernels.padded import code_type
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.store import digest, link, write_json

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Candidate:
    """Where a candidate lies."""

    public: Path
    private: Path


def build(job: Job, groups: Path, labels: np.ndarray, utility: Path) -> Candidate:
    """Bring together the group profiles, the pseudonyms of their members, the items and the promises."""
    candidate = Candidate(job.out / "candidate", job.out / "private")
    candidate.public.mkdir()
    candidate.private.mkdir()
    ratings = Ratings(job.inputs["ingest"])
    link(groups, candidate.public / "groups.parquet")
    pq.write_table(
        pa.table({"item": pa.array(ratings.item_ids(), pa.string())}), candidate.public / "items.parquet"
    )
    _write_members(job, ratings.user_ids(), labels, candidate)
    shutil.copytree(utility, candidate.private / "utility", ignore=shutil.ignore_patterns("step.json", ".*"))
    write_json(candidate.public / "manifest.json", _manifest(job, candidate, len(labels), ratings.n_items))
    return candidate


def _write_members(job: Job, ids: list[str], labels: np.ndarray, candidate: Candidate) -> None:
    """members.parquet for everybody, membership.parquet for the owner; both in the order of the pseudonyms."""
    names = job.run.key.pseudonyms(job.config.release.name, job.snapshot.isoformat(), ids)
    order = np.argsort(names)  # an order that says nothing about the source
    pseudonym = pa.array(names, pa.string()).take(pa.array(order))
    group = pa.array(labels[order], pa.int32())
    pq.write_table(pa.table({"user": pseudonym, "group": group}), candidate.public / "members.parquet")
    owner = pa.table(
        {"user": pa.array(ids, pa.string()).take(pa.array(order)), "pseudonym": pseudonym, "group": group}
    )
    pq.write_table(owner, candidate.private / "membership.parquet")


def _manifest(job: Job, candidate: Candidate, users: int, items: int) -> dict[str, Any]:
    config = job.config
    sizes = profiles.read_sizes(candidate.public / "groups.parquet")
    kind = code_type(config.source.scale, config.privacy.rating_step)
    return {
        "schema_version": SCHEMA_VERSION,
        "release": config.release.name,
        "snapshot": job.snapshot.isoformat(),
        "method": config.privacy.method,
        "privacy": config.privacy.model_dump(include={"k", "l", "b", "min_contributors"}),
        "counts": {
            "users": users,
            "items": items,
            "groups": len(sizes),
            "ratings": int((profiles.read_lengths(candidate.public / "groups.parquet", kind) * sizes).sum()),
        },
        "rating_scale": list(config.source.scale),
        "rating_step": config.privacy.rating_step,
        "rating_encoding": {"u1": "uint8", "u2": "uint16"}[kind.str[1:]],
        "unit": "rating",
        "series": "unchecked",
        "withheld": {"users": 0, "items": 0, "why": ""},
        "files": {
            name: digest(candidate.public / name)
            for name in ("groups.parquet", "items.parquet", "members.parquet")
        },
    }
