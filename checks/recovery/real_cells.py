"""Find the cells of a release that contain a member's real rating: all at once, for samples and small releases; or some
given cells of any release.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from checks.evidence.case import Case
from checks.stats import runs


@dataclass(frozen=True)
class RealCells:
    """Hold one entry per (group, item) that a member rated, by group, then item.

    `number` counts the contributors and `total` adds up their ratings; `published` is the value of the cell (NaN: not
    published); `rater` is one of the contributors. `rated` and `rating_sums` count and add up the ratings of every user
    of these groups.
    """

    n_items: int
    groups: np.ndarray
    items: np.ndarray
    number: np.ndarray
    total: np.ndarray
    published: np.ndarray
    rater: np.ndarray
    rated: np.ndarray
    rating_sums: np.ndarray

    @classmethod
    def of(cls, case: Case) -> "RealCells":
        """Collect the cells in one pass over the release."""
        users = case.truth.users
        rated, sums = np.zeros(users), np.zeros(users)
        parts: list[tuple[np.ndarray, ...]] = []
        for block in case.group_blocks():
            who, starts = runs(block.users)
            rated[who] = np.diff(starts)
            sums[who] = np.add.reduceat(block.ratings, starts[:-1], dtype=np.float64)
            rater = np.zeros(block.contributors.nnz, dtype=np.int32)
            rater[block.cells] = block.users
            counts, totals = block.contributors.data, block.rating_sums.data
            parts.append((block.groups.astype(np.int32), block.items, counts, totals, block.published, rater))
        nothing = (np.zeros(0, np.int32),) * 6
        groups, items, number, total, published, rater = map(
            np.concatenate, zip(*(parts or [nothing]), strict=True)
        )
        return cls(case.release.n_items, groups, items, number, total, published, rater, rated, sums)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def is_published(self) -> np.ndarray:
        """Return which of the cells are published."""
        return ~np.isnan(self.published)

    def rows(self, start: int, count: int) -> slice:
        """Return the entries of consecutive groups."""
        return slice(*np.searchsorted(self.groups, [start, start + count]))


def hold_real_ratings(case: Case, keys: np.ndarray) -> np.ndarray:
    """Mark which of these cells (group · items + item) contain a real rating.

    They are looked up in the ratings of the groups' members, so that few cells of a large release cost little.
    """
    groups, items = np.divmod(keys, case.release.n_items)
    ratings, people = case.truth.ratings, case.groups
    return _rated(groups, items, people.starts, people.members, ratings.indptr, ratings.indices)


@njit(cache=True, nogil=True)
def _rated(groups, items, starts, members, indptr, indices):  # type: ignore[no-untyped-def]
    found = np.zeros(len(groups), np.bool_)
    for cell in range(len(groups)):
        for place in range(starts[groups[cell]], starts[groups[cell] + 1]):
            member = members[place]
            own = indices[indptr[member] : indptr[member + 1]]
            at = np.searchsorted(own, items[cell])
            if at < len(own) and own[at] == items[cell]:
                found[cell] = True
                break
    return found
