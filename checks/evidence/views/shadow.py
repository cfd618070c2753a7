"""Open the shadow release: the same method on the ratings of fewer people, the only data with absent people.

A release contains every person, so it has no absent people to measure an attack's luck with. Evaluate makes a second
release from 90 % of the ratings and without some people (tasks/steps/evaluate.py). Opened here as a case of its own,
its truth has `row_of_user` = −1 for the absent. Of a small source there are several such releases, each made without
other people. Knowledge about members comes from ratings that went into the shadow,
knowledge about absent people from all of theirs: the strongest attack on either.
"""

from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.release import DATA_FILES, Release
from checks.evidence.seeds import seeded
from checks.evidence.truth import Truth
from checks.evidence.views.raw import RawRelease, is_raw
from tasks.errors import MurmurError, Refused, is_full
from tasks.store import digest

ABSENT_SHARE = 0.05  # of the raw data's people, as of the shadow's
MOST_ABSENT = 500
MOST_PEOPLE = 50_000  # of the raw data's people in a control that needs them rearranged
FEWEST_USERS = 500  # smaller data leave out no person: utility needs every rating that is held out
_SAME = ("method", "privacy", "rating_scale", "rating_step", "rating_encoding", "unit")


def shadow_view(case: Case) -> Case:
    """Return the shadow of a release, as it is published; refuse where there is none."""
    return case.cached("shadow", lambda: open_shadow(case))


def shadow_views(case: Case) -> list[Case]:
    """Return all shadows of a release, one for each draw of absent people."""
    return [shadow_view(case), *case.cached("further shadows", lambda: _open_further(case))]


def rows_in(shadow: Case, case: Case) -> np.ndarray:
    """Return which person (row) of a case each person of its shadow is."""
    return _places(shadow.truth.membership.users, case.truth.membership.users)


def open_shadow(case: Case) -> Case:
    """Open the shadow of a release; of raw data, the raw data without some people."""
    if is_raw(case):
        return _raw_shadow(case)
    if case.private is None:
        raise Refused("there is no private directory with the shadow release", remedy="run `murmur audit`")
    return _open(case, case.private / "utility" / "shadow-release")


def _open_further(case: Case) -> list[Case]:
    if is_raw(case) or case.private is None:
        return []
    places = (case.private / "utility" / f"shadow-release-{number}" for number in count(2))
    return [_open(case, place) for place in takewhile(Path.exists, places)]


def _open(case: Case, directory: Path) -> Case:
    try:
        return _read(case, directory)
    except Exception as problem:
        if is_full(problem):  # a full disk is no finding about the shadow
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


def absent_people(shadow: Case) -> np.ndarray:
    """Return the people (rows of the shadow's truth) with ratings who are not in the shadow."""
    rated = np.diff(shadow.truth.ratings.indptr)
    return np.flatnonzero((shadow.truth.row_of_user < 0) & (rated > 0))


def can_spare(case: Case) -> bool:
    """Test whether a shadow must have been made without some people: enough people remain to form groups."""
    users, release = case.truth.users, case.release
    return users >= FEWEST_USERS and (1 - ABSENT_SHARE) * users >= 2 * release.k * release.l


def _read(case: Case, directory: Path) -> Case:
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
    truth = _select(case.truth, rows, held_out, membership, group)
    return case.with_release(release, truth)


def _held_out(directory: Path, membership: Membership, n_items: int) -> np.ndarray:
    """Return the ratings held out of members, as row of the membership · items + item."""
    table = pq.read_table(directory / "held_out.parquet", columns=["pseudonym", "item"])
    user = _places(table.column("pseudonym").combine_chunks(), membership.pseudonyms)
    item = table.column("item").to_numpy().astype(np.int64)
    if (user < 0).any() or (item < 0).any() or (item >= n_items).any():
        raise Refused("what was held out is not of its people and items")
    return user * n_items + item


def _places(wanted: pa.StringArray, among: pa.StringArray) -> np.ndarray:
    """Return the position of each string; −1: not found."""
    return pc.fill_null(pc.index_in(wanted, value_set=among), -1).to_numpy().astype(np.int64)


def _select(
    truth: Truth, rows: np.ndarray, held_out: np.ndarray, membership: Membership, group: np.ndarray
) -> Truth:
    """Return some people of a truth without what was held out; small enough to be held in memory (MOST_PEOPLE)."""
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
        first_rows=None if truth.first_rows is None else truth.first_rows[rows],
        attributes={name: values.take(pa.array(rows)) for name, values in truth.attributes.items()},
    )


def control_crowd(truth: Truth, always: np.ndarray) -> np.ndarray:
    """Return the rows of at most MOST_PEOPLE people, `always` among them, in order: a crowd for a control."""
    if truth.users <= MOST_PEOPLE:
        return np.arange(truth.users)
    others = seeded("crowd").permutation(np.setdiff1d(np.arange(truth.users), always))
    return np.sort(np.concatenate([always, others[: MOST_PEOPLE - len(always)]]))


def _raw_shadow(case: Case) -> Case:
    """Return the raw data without the records of some people, who are still known: a control that must succeed."""
    truth = case.truth
    left_out = min(int(ABSENT_SHARE * truth.users), MOST_ABSENT)
    absent = seeded("absent").choice(truth.users, left_out, replace=False)
    chosen = control_crowd(truth, absent)
    present = ~np.isin(chosen, absent)
    group = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
    known = select_people(truth, chosen, group)
    inside = select_people(known, np.flatnonzero(present), group[present])
    release = RawRelease(inside, low=case.release.low, high=case.release.high, k=case.release.k)
    return case.with_release(release, known)


def select_people(truth: Truth, rows: np.ndarray, group: np.ndarray) -> Truth:
    """Return these people of a truth, listed in these rows."""
    return _select(truth, rows, np.empty(0, np.int64), _members(truth.membership, rows), group)


def _members(membership: Membership, rows: np.ndarray) -> Membership:
    chosen = pa.array(rows)
    return Membership(
        membership.users.take(chosen), membership.pseudonyms.take(chosen), membership.groups[rows]
    )
