"""Hold the candidate: a release in the published form, still private, before the gate has judged it.

candidate/   groups.parquet members.parquet items.parquet manifest.json [support.parquet]   what would be published
private/     membership.parquet utility/ [added.parquet curve.json series.json]  what only the owner may see
"""

import datetime
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles, support
from tasks.data.ratings import Ratings
from tasks.series.budget import planned
from tasks.store import digest, link, read_json, write_json

SCHEMA_VERSION = 1


class Declaration(Settings):
    """Hold what a manifest declares about a release beside its snapshot, counts and files (docs/release-format.md)."""

    release: str
    method: str
    privacy: dict[str, Any]
    scale: tuple[float, float]
    coding: profiles.Coding
    support: bool = False

    @classmethod
    def of(cls, config: ReleaseConfig) -> "Declaration":
        """Return what a release declares."""
        return cls(
            release=config.release.name,
            method=config.privacy.method,
            privacy=_promises(config),
            scale=config.source.scale,
            coding=profiles.Coding.of(config),
            support=config.privacy.support,
        )


def _promises(config: ReleaseConfig) -> dict[str, Any]:
    """Return what a manifest promises: how many people share a profile, or epsilon to everybody."""
    if (budget := config.privacy.budget) is None:
        return config.privacy.model_dump(include={"k", "l", "b", "min_contributors"})
    spends = planned(budget)
    return {
        **{name: getattr(spends, name) for name in ("epsilon", "delta", "rho", "failure")},
        "budget": budget.model_dump(),
    }


@dataclass(frozen=True)
class Candidate:
    """Hold the two directories of a candidate."""

    public: Path
    private: Path


@dataclass(frozen=True)
class Membership:
    """Hold source ids, pseudonyms and group numbers of users; −1: absent from the release, known to its owner only."""

    ids: pa.Array
    pseudonyms: pa.Array
    labels: np.ndarray


@dataclass(frozen=True)
class Contents:
    """Hold what a release is made of: groups.parquet with its digest, the items by position, and what is withheld.

    `as_of` is the newest snapshot whose ratings are behind a profile, where it is later than the release's own.
    """

    groups: Path
    groups_digest: str
    items: list[str]
    withheld: dict[str, Any]
    series: str = "unchecked"
    as_of: str | None = None
    support: Path | None = None  # the file of tasks/data/support.py, where it is published
    details: pa.Table | None = None  # titles and genres of the items, in their order

    @classmethod
    def of(cls, ratings: Ratings, groups: Path) -> "Contents":
        """Return the contents of a release that stands alone; `groups` is the groups.parquet that a step wrote."""
        return cls(groups, recorded_digest(groups), ratings.item_ids(), read_withheld(ratings.directory))


def write_release(
    place: Candidate,
    declared: Declaration,
    snapshot: datetime.date,
    contents: Contents,
    members: Membership,
) -> None:
    """Write the published files and the owner's membership."""
    for directory in (place.public, place.private):
        directory.mkdir(exist_ok=True)
    link(contents.groups, place.public / "groups.parquet")
    items = pa.array(contents.items, pa.string())
    listed = pa.table({"item": items})
    if contents.details is not None:
        for name in contents.details.column_names:
            listed = listed.append_column(name, contents.details.column(name))
    pq.write_table(listed, place.public / "items.parquet")
    _write_members(place, members)
    files = {name: digest(place.public / name) for name in ("items.parquet", "members.parquet")}
    files["groups.parquet"] = contents.groups_digest
    if contents.support is not None:
        link(contents.support, place.public / support.FILE)
        files[support.FILE] = digest(contents.support)
    counts = {
        "users": int((members.labels >= 0).sum()),
        "items": len(items),
        "groups": sum(profiles.row_groups(place.public / "groups.parquet")),
        "ratings": profiles.count_ratings(place.public / "groups.parquet", len(items), declared.coding.dtype),
    }
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "release": declared.release,
        "snapshot": snapshot.isoformat(),
        "method": declared.method,
        "privacy": declared.privacy,
        "counts": counts,
        "rating_scale": list(declared.scale),
        "rating_step": declared.coding.step,
        "rating_encoding": declared.coding.encoding,
        "unit": declared.coding.unit,
        "series": contents.series,
        **({"as_of": contents.as_of} if contents.series == "checked" else {}),
        "withheld": contents.withheld,
        "files": files,
    }
    write_json(place.public / "manifest.json", manifest)


def add_owner_files(place: Candidate, ratings: Ratings, utility: Path) -> None:
    """Copy into `private/` what else belongs to the owner: utility figures, made-up ratings, the suppression curve,
    the plan of a series."""
    shutil.copytree(utility, place.private / "utility", ignore=shutil.ignore_patterns("step.json", ".*"))
    if (ratings.directory / "added.parquet").exists():
        _write_added(place, ratings)
    for name in ("curve.json", "series.json"):
        if (ratings.directory / name).exists():
            link(ratings.directory / name, place.private / name)


def _write_added(place: Candidate, ratings: Ratings) -> None:
    """Write which ratings were made up for which user, by id: `murmur restore` removes them from recommendations."""
    added = pq.read_table(ratings.directory / "added.parquet")
    owner = pq.read_table(place.private / "membership.parquet", columns=["user", "pseudonym"])
    pseudonym = owner.column("pseudonym").take(
        pc.index_in(ratings.user_ids(), value_set=owner.column("user"))
    )
    user, item = added.column("user"), pa.array(ratings.item_ids(), pa.string())
    columns = {
        "user": ratings.user_ids().take(user),
        "pseudonym": pseudonym.take(user),
        "item": item.take(added.column("item")),
        "rating": added.column("rating"),
    }
    pq.write_table(pa.table(columns), place.private / "added.parquet", compression="zstd")


def recorded_digest(file: Path) -> str:
    """Return the digest its step recorded: the large file is not read again, and one changed since fails the gate."""
    return read_json(file.parent / "step.json")["files"][file.name]


def _write_members(place: Candidate, members: Membership) -> None:
    """Write members.parquet (public) and membership.parquet (the owner's), both in the order of the pseudonyms."""
    labels = pa.array(members.labels, pa.int32())
    owner = pa.table({"user": members.ids, "pseudonym": members.pseudonyms, "group": labels})
    owner = owner.sort_by("pseudonym")  # an order that discloses nothing about the source
    listed = owner.filter(pc.greater_equal(owner.column("group"), 0))
    public = pa.table({"user": listed.column("pseudonym"), "group": listed.column("group")})
    pq.write_table(public, place.public / "members.parquet")
    pq.write_table(owner, place.private / "membership.parquet")


def read_withheld(ratings: Path) -> dict[str, Any]:
    """Return how many users and items an earlier step left out of the ratings, and why."""
    path = ratings / "withheld.json"
    return read_json(path) if path.exists() else {"users": 0, "items": 0, "why": ""}
