"""Intersect a release with earlier ones about the same people: k-anonymity does not compose (docs/leaks-and-bars.md).

An attacker who holds several releases intersects the groups of a person. What the manifest says about its series or
its population is the candidate's own claim and is not read: the check finds the other releases in the store that the
private directory belongs to, and compares who is in which group.
"""

import datetime
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.registry import check
from checks.result import Finding


@check("series", threshold=1, severity="advisory", as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Return 1 when nobody stands among fewer people in all releases together than in this one, 0 otherwise."""
    place = own_place(case.private)
    if place is None:
        detail = (
            "not examined: the private directory belongs to no store in which earlier releases could be found. Groups "
            "of two releases about the same people can be intersected."
        )
        return Finding(False, 0.0, 0, detail)
    own = case.truth.membership
    others = [other for other in earlier_memberships(place) if _shares_people(own, other)]
    if not others:
        detail = "no earlier release in this store is about any of these people. Releases elsewhere are not examined."
        return Finding(True, 1.0, 0, detail, applicable=False)
    smallest = int(np.unique(own.groups[own.groups >= 0], return_counts=True)[1].min())
    among = people_in_class([own, *others])
    exposed = float((among < smallest).mean())
    releases = f"together with {len(others):,} earlier release{'s' * (len(others) > 1)} about the same people"
    if smallest == 1:
        detail = f"{releases}, records of single people can be compared, and noise averaged away."
        return Finding(False, 0.0, len(others), detail)
    if exposed:
        detail = (
            f"{releases}, up to {math.ceil(100 * exposed)} % of the people are among fewer than {smallest:,} who share "
            "their group in each: groups can be intersected. Publish one snapshot only."
        )
        return Finding(False, 0.0, len(others), detail)
    detail = f"{releases}, everybody is among at least {smallest:,} people who share their group in each."
    return Finding(True, 1.0, len(others), detail)


def own_place(private: Path | None) -> Path | None:
    """Return the <store>/private/<name>/<snapshot> at or above a private directory; None: it is in no store."""
    for place in (private.resolve(), *private.resolve().parents) if private else ():
        if len(place.parents) > 2 and place.parents[1].name == "private" and _is_date(place.name):
            return place
    return None


def earlier_memberships(place: Path) -> list[Membership]:
    """Return the memberships of all other releases in the store that were published before the release of `place`.

    Whatever their names and snapshots. A release that is judged for the first time comes after all of them. One that is
    judged again comes after those that were made before it, so that the same verdict is reached again.
    """
    private = place.parents[1]
    published = private.with_name("published")
    own = place / "membership.parquet"  # written at publication
    latest = own.stat().st_mtime_ns if own.exists() else math.inf
    return [
        Membership.read(file.parent)
        for file in sorted(private.glob("*/*/membership.parquet"))
        if file != own
        and file.stat().st_mtime_ns <= latest
        and (published / file.parent.relative_to(private) / "manifest.json").exists()
    ]


def people_in_class(releases: list[Membership]) -> np.ndarray:
    """Return, for every person who is in a release, how many people are in the same group or absent in each of them."""
    ids = pa.concat_arrays([release.users for release in releases]).unique()
    label = np.zeros(len(ids), np.int64)
    released = np.zeros(len(ids), bool)
    for release in releases:
        group = np.full(len(ids), -1, np.int64)
        group[pc.index_in(release.users, value_set=ids).to_numpy()] = release.groups
        released |= group >= 0
        label = np.unique(label * (group.max() + 2) + group + 1, return_inverse=True)[1]
    return np.bincount(label)[label[released]]


def _shares_people(own: Membership, other: Membership) -> bool:
    mine = own.users.filter(pa.array(own.groups >= 0))
    theirs = other.users.filter(pa.array(other.groups >= 0))
    return bool(pc.any(pc.is_in(mine, value_set=theirs)).as_py())


def _is_date(name: str) -> bool:
    try:
        return bool(datetime.date.fromisoformat(name))
    except ValueError:
        return False
