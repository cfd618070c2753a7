"""The shadow: the same method on the ratings of fewer people, the only place where absent people exist.

A release contains everybody, so nobody is left to tell an attack's luck from its success. Evaluate makes a second
release from 90 % of the ratings and some people fewer (tasks/steps/evaluate.py); opened here as a case of its own,
its truth has `row_of_user` = −1 for the absent. What is known about members comes from ratings that went into the
shadow, about absent people from all of theirs: the strongest attack there is on either.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from checks.raw import RawRelease
from checks.release import DATA_FILES, Release
from checks.seeds import seeded
from checks.truth import Membership, Truth
from tasks.errors import MurmurError, Refused, is_full
from tasks.store import digest

if TYPE_CHECKING:
    from checks.case import Case

ABSENT_SHARE = 0.05  # of the raw data's people, as of the shadow's
MOST_ABSENT = 500
MOST_PEOPLE = 50_000  # of the raw data's people in a control that needs them rearranged
FEWEST_USERS = 500  # smaller data spare nobody: utility needs every rating that is held out
_SAME = ("method", "privacy", "rating_scale", "rating_step", "rating_encoding", "unit")


def open_shadow(case: "Case") -> "Case":
    """The shadow of a release; of the raw data, the raw data without some people."""
    if isinstance(case.release, RawRelease):
        return _raw_shadow(case)
    if case.private is None:
        raise Refused("there is no private directory with the shadow release", remedy="run `murmur audit`")
    directory = case.private / "utility" / "shadow-release"
    try:
        return _read(case, directory)
    except Exception as problem:
        if is_full(problem):  # that says nothing about the shadow
            raise
        # Damaged files raise whatever their reader meets first, and it may quote a source id.
        why = (
            problem.what
            if isinstance(problem, MurmurError)
            else f"it cannot be read ({type(problem).__name__})"
        )
        raise Refused(
            f"the shadow release cannot be used: {why}",
            where=str(directory),
            remedy="run the release anew; its evaluate step makes the shadow",
        ) from None


def absent_people(shadow: "Case") -> np.ndarray:
    """People (rows of the shadow's truth) with ratings who are not in the shadow."""
    rated = np.diff(shadow.truth.ratings.indptr)
    return np.flatnonzero((shadow.truth.row_of_user < 0) & (rated > 0))


def can_spare(case: "Case") -> bool:
    """Whether a shadow must have been made without some people: there are enough, and the rest forms its groups."""
    users, release = case.truth.users, case.release
    return users >= FEWEST_USERS and (1 - ABSENT_SHARE) * users >= 2 * release.k * release.l


def _read(case: "Case", directory: Path) -> "Case":
    release = Release(directory, case.private)
    if any(release.manifest["files"].get(name) != digest(directory / name) for name in DATA_FILES):
        raise Refused("its files are not those its manifest names")
    if any(release.manifest[key] != case.release.manifest[key] for key in _SAME):
        raise Refused("it was not made by the method and with the settings of the release")
    if not release.items.equals(case.release.items):
        raise Refused("its items are not those of the release")
    membership = Membership.read(directory)
    rows = _places(membership.users, case.truth.membership.users)
    if (rows < 0).any() or len(np.unique(rows)) != len(rows):
        raise Refused("its people are not those of the release")
    listed = _places(membership.pseudonyms, release.pseudonyms)
    group = np.where(listed >= 0, release.row_of_member[listed], -1).astype(np.int32)
    if (group >= 0).sum() != len(release.pseudonyms) or ((group < 0) != (membership.groups < 0)).any():
        raise Refused("its members are not those its membership lists")
    held_out = _held_out(directory, membership, release.n_items)
    truth = _part(case.truth, rows, held_out, membership, group)
    return replace(case, release=release, given_truth=truth)


def _held_out(directory: Path, membership: Membership, n_items: int) -> np.ndarray:
    """The ratings held out of members, as row of the membership · items + item."""
    table = pq.read_table(directory / "held_out.parquet", columns=["pseudonym", "item"])
    user = _places(table.column("pseudonym").combine_chunks(), membership.pseudonyms)
    item = table.column("item").to_numpy().astype(np.int64)
    if (user < 0).any() or (item < 0).any() or (item >= n_items).any():
        raise Refused("what was held out is not of its people and items")
    return user * n_items + item


def _places(wanted: pa.StringArray, among: pa.StringArray) -> np.ndarray:
    """Where each string is; −1: nowhere."""
    return pc.fill_null(pc.index_in(wanted, value_set=among), -1).to_numpy().astype(np.int64)


def _part(
    truth: Truth, rows: np.ndarray, held_out: np.ndarray, membership: Membership, group: np.ndarray
) -> Truth:
    """Some people of a truth, without what was held out; small enough to be held (MOST_PEOPLE)."""
    counts = np.diff(truth.ratings.indptr)[rows]
    owner = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    places = np.arange(len(owner)) + np.repeat(
        truth.ratings.indptr[rows] - (np.cumsum(counts, dtype=np.int64) - counts), counts
    )
    items = truth.ratings.indices[places]
    if len(held_out):
        aside = np.isin(owner * np.int64(truth.ratings.shape[1]) + items, held_out)
        if aside.sum() != len(held_out):
            raise Refused("what was held out are not ratings of the source")
        owner, places, items = owner[~aside], places[~aside], items[~aside]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(rows)))]).astype(np.int32)
    kept = (truth.ratings.data[places], items, indptr)
    return replace(
        truth,
        membership=membership,
        ratings=sp.csr_array(kept, shape=(len(rows), truth.ratings.shape[1])),
        row_of_user=group,
        seen=truth.seen[rows],
        unlisted_users=truth.source_users - int(truth.seen[rows].sum()),
        days=None if truth.days is None else truth.days[places],
        files=None,
        attributes={name: values.take(pa.array(rows)) for name, values in truth.attributes.items()},
    )


def some_people(truth: Truth, always: np.ndarray) -> np.ndarray:
    """Rows of at most MOST_PEOPLE, `always` among them, in order: a crowd large enough for a control."""
    if truth.users <= MOST_PEOPLE:
        return np.arange(truth.users)
    others = seeded("crowd").permutation(np.setdiff1d(np.arange(truth.users), always))
    return np.sort(np.concatenate([always, others[: MOST_PEOPLE - len(always)]]))


def _raw_shadow(case: "Case") -> "Case":
    """The raw data without the records of some people, who are still known: a control that must succeed."""
    truth = case.truth
    count = min(int(ABSENT_SHARE * truth.users), MOST_ABSENT)
    absent = seeded("absent").choice(truth.users, count, replace=False)
    chosen = some_people(truth, absent)
    present = ~np.isin(chosen, absent)
    group = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
    known = part_of(truth, chosen, group)
    inside = part_of(known, np.flatnonzero(present), group[present])
    release = RawRelease(inside, low=case.release.low, high=case.release.high, k=case.release.k)
    return replace(case, release=release, given_truth=known)


def part_of(truth: Truth, rows: np.ndarray, group: np.ndarray) -> Truth:
    """These people of a truth, listed at these places."""
    return _part(truth, rows, np.empty(0, np.int64), _members(truth.membership, rows), group)


def _members(membership: Membership, rows: np.ndarray) -> Membership:
    chosen = pa.array(rows)
    return Membership(
        membership.users.take(chosen), membership.pseudonyms.take(chosen), membership.groups[rows]
    )
