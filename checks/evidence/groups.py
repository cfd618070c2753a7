"""Add up what the members of each group really rated, for a block of groups at a time.

The cells (group, item) with a member's rating are about as many as the ratings themselves (90 million at Netflix's size
and k = 5). They are added up anew from the members' rows in every pass, which costs less than keeping them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numba import njit

from checks.evidence.profiles import Profiles
from checks.evidence.truth import Truth


@dataclass(frozen=True)
class GroupBlock:
    """Represent consecutive groups: what they publish, and what their members really rated.

    `contributors` (groups × items) counts the members who rated an item and `rating_sums` adds up their ratings, both
    stored in the same cells, items ascending. Every rating of a member is an entry of `users` (row of the truth),
    `places` (its position in the truth's ratings), `ratings` and `cells` (its entry of `contributors`), ordered by
    group, member row and item.
    """

    profiles: Profiles
    contributors: sp.csr_array
    rating_sums: sp.csr_array
    users: np.ndarray
    places: np.ndarray
    ratings: np.ndarray
    cells: np.ndarray

    @property
    def start(self) -> int:
        """The row of the first group among all groups."""
        return self.profiles.start

    @property
    def rows(self) -> int:
        """Number of groups in the block."""
        return self.profiles.rows

    @cached_property
    def groups(self) -> np.ndarray:
        """The group (a row among all groups) of every entry of `contributors`."""
        numbers = np.arange(self.start, self.start + self.rows)
        return np.repeat(numbers, np.diff(self.contributors.indptr))

    @property
    def items(self) -> np.ndarray:
        """The item of every entry of `contributors`."""
        return self.contributors.indices

    @cached_property
    def published(self) -> np.ndarray:
        """The published value of every entry of `contributors`; NaN where the group does not publish the item."""
        return self.profiles.at(self.groups - self.start, self.items)


class Groups:
    """Map groups to their members (rows of the truth)."""

    def __init__(self, truth: Truth, n_groups: int) -> None:
        self.truth = truth
        rows = np.where(truth.seen, truth.row_of_user, -1)
        self.sizes = np.bincount(rows[rows >= 0], minlength=n_groups)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self.members = np.argsort(rows, kind="stable")[len(rows) - self.starts[-1] :]

    def block(self, profiles: Profiles) -> GroupBlock:
        """Add up the ratings of the members of these groups."""
        ratings = self.truth.ratings
        starts = self.starts[profiles.start : profiles.start + profiles.rows + 1]
        members = self.members[starts[0] : starts[-1]]
        first, last = ratings.indptr[members].astype(np.int64), ratings.indptr[members + 1].astype(np.int64)
        total = int((last - first).sum())
        users, places = np.empty(total, np.int32), np.empty(total, np.int64)
        values, cells = np.empty(total, np.float32), np.empty(total, np.int64)
        indptr = np.zeros(profiles.rows + 1, np.int32)  # as the columns: SciPy would widen these
        items, counts, sums = (
            np.empty(total, np.int32),
            np.empty(total, np.float32),
            np.empty(total, np.float32),
        )
        _add_up(
            (starts - starts[0], members, first, last), (ratings.indices, ratings.data), profiles.n_items,
            (users, places, values, cells), (indptr, items, counts, sums),
        )  # fmt: skip
        shape, stored = (profiles.rows, profiles.n_items), int(indptr[-1])
        contributors, rating_sums = (
            sp.csr_array((data[:stored], items[:stored], indptr), shape=shape) for data in (counts, sums)
        )
        return GroupBlock(profiles, contributors, rating_sums, users, places, values, cells)


@njit(cache=True, nogil=True)
def _add_up(who, rated, n_items, flat, stored):  # type: ignore[no-untyped-def]
    starts, members, first, last = who
    indices, data = rated
    users, places, values, cells = flat
    indptr, items, counts, sums = stored
    count, total = np.zeros(n_items, np.int32), np.zeros(n_items, np.float32)
    entry = np.zeros(n_items, np.int64)
    at, cell = 0, 0
    for group in range(len(starts) - 1):
        begin = at
        for m in range(starts[group], starts[group + 1]):
            for place in range(first[m], last[m]):
                item = indices[place]
                count[item] += 1
                total[item] += data[place]
                users[at], places[at], values[at], cells[at] = members[m], place, data[place], item
                at += 1
        if starts[group + 1] - starts[group] == 1:  # one member: the cells are their ratings, in their order
            for p in range(begin, at):
                item = cells[p]
                items[cell], counts[cell], sums[cell], cells[p] = item, 1, total[item], cell
                count[item], total[item] = 0, 0
                cell += 1
        else:
            for item in range(n_items):
                if count[item]:
                    items[cell], counts[cell], sums[cell], entry[item] = item, count[item], total[item], cell
                    count[item], total[item] = 0, 0
                    cell += 1
            for p in range(begin, at):
                cells[p] = entry[cells[p]]
        indptr[group + 1] = cell
