"""Show the new groups of a release as if nothing else had been published, with the ratings of their people alone.

In a series most groups are carried over: they were judged when they were first published, their bytes and the ratings
behind them have not changed since. What is new are the groups of one cohort, formed and predicted from that cohort's
ratings. An attacker who holds the release before knows which groups these are, so the attacks are run on them alone.
People who wait are not in this view either: no published figure may depend on them (docs/series.md).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.release_view import Listing, ReleaseView
from checks.evidence.support import Support
from checks.evidence.truth import Truth
from checks.evidence.views.sample import select_rows
from checks.evidence.views.shadow import select_people


class NewGroups(ReleaseView):
    """Represent some groups of a release (ascending rows) and the items that they hold, in the order of `columns`."""

    _support: Support | None = None

    def __init__(self, whole: ReleaseView, chosen: np.ndarray, columns: np.ndarray) -> None:
        place = np.full(whole.n_groups + 1, -1, np.int32)  # the last entry: members of no group
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        inside = place[whole.row_of_member] >= 0
        listing = Listing(
            whole.items.take(pa.array(columns)),
            whole.groups[chosen],
            whole.sizes[chosen],
            whole.pseudonyms.filter(pa.array(inside)),
            whole.member_group[inside],
        )
        super().__init__(whole.manifest, listing, step=whole.step, dtype=whole.dtype)
        self._blocks = list(_blocks(whole, chosen, columns))
        if whole.support is not None:
            position = np.full(whole.n_items, -1, np.int64)
            position[columns] = np.arange(len(columns))
            self._support = whole.support.selected(place, position)

    @property
    def lengths(self) -> np.ndarray:
        """Number of published items of every group."""
        return np.concatenate([np.zeros(0, np.int64), *(np.diff(block.indptr) for block in self._blocks)])

    def blocks(self) -> Iterator[Profiles]:
        """Yield the groups in blocks."""
        yield from self._blocks

    def long_blocks(self) -> Iterable[Profiles]:
        """Return the same blocks: they are in memory."""
        return self.blocks()

    @property
    def support(self) -> Support | None:
        """The published counts of raters of these groups."""
        return self._support

    def close(self) -> None:
        """Do nothing: the view is held in memory."""


def new_groups_view(case: Case, new: np.ndarray) -> Case | None:
    """Return the case of the new groups (a mask over the rows of the release); None: there is none.

    Where all groups are new, only people and items outside the release are taken out of its truth.
    """
    release, truth = case.release, case.truth
    if not new.any():
        return None
    if new.all():
        if not truth.unlisted_users and not truth.unlisted_items:
            return case
        raters = truth.item_totals[0]
        listed = replace(truth, raters=raters, unlisted_users=0, unlisted_items=0, files=None)
        return case.with_release(release, listed)
    chosen = np.flatnonzero(new)
    columns = _held_items(release, chosen)
    people = np.flatnonzero((truth.row_of_user >= 0) & new[np.maximum(truth.row_of_user, 0)])
    place = np.full(release.n_groups, -1, np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    own = select_people(truth, people, place[truth.row_of_user[people]])
    return case.with_release(NewGroups(release, chosen, columns), _with_columns(own, columns))


def _held_items(release: ReleaseView, chosen: np.ndarray) -> np.ndarray:
    """Return the positions of the items that the chosen groups hold, in the order of their ids, as in their shadow."""
    held = np.zeros(release.n_items, bool)
    for block in release.blocks():
        inside = select_rows(block, chosen)
        if inside.rows and inside.items is None:
            held[:] = True
        elif inside.rows:
            held[inside.items] = True
    positions = np.flatnonzero(held)
    return positions[pc.sort_indices(release.items.take(pa.array(positions))).to_numpy()]


def _blocks(whole: ReleaseView, chosen: np.ndarray, columns: np.ndarray) -> Iterator[Profiles]:
    """Yield the chosen groups with items numbered among the columns."""
    place = np.full(whole.n_items, -1, np.int32)
    place[columns] = np.arange(len(columns), dtype=np.int32)
    start = 0
    for block in whole.blocks():
        inside = select_rows(block, chosen)
        if inside.rows == 0:
            continue
        row, item = inside.row_numbers(), place[inside.columns]
        order = np.lexsort((item, row))
        every = bool((np.diff(inside.indptr) == len(columns)).all())
        items, codes = None if every else item[order], inside.codes[order]
        yield replace(inside, start=start, items=items, codes=codes, n_items=len(columns))
        start += inside.rows


def _with_columns(truth: Truth, columns: np.ndarray) -> Truth:
    """Return the ratings of some items, in this order; everybody else's ratings of them are left out, too."""
    place = np.full(truth.ratings.shape[1], -1, np.int64)
    place[columns] = np.arange(len(columns))
    row = np.repeat(np.arange(truth.users), np.diff(truth.ratings.indptr))
    item = place[truth.ratings.indices]
    kept = np.flatnonzero(item >= 0)
    kept = kept[np.lexsort((item[kept], row[kept]))]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=truth.users))])
    cells = (truth.ratings.data[kept], item[kept].astype(np.int32), indptr.astype(np.int32))
    return replace(
        truth,
        ratings=sp.csr_array(cells, shape=(truth.users, len(columns))),
        raters=np.bincount(item[kept], minlength=len(columns)),
        unlisted_users=0,
        unlisted_items=0,
        days=None if truth.days is None else truth.days[kept],
        items=None if truth.items is None else truth.items.take(pa.array(columns)),
        first_item_rows=None if truth.first_item_rows is None else truth.first_item_rows[columns],
    )
