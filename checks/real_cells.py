"""The cells of a release in which somebody's real rating lies, all at once: for samples, and for small releases."""

from dataclasses import dataclass

import numpy as np

from checks.case import Case
from checks.stats import runs


@dataclass(frozen=True)
class RealCells:
    """One entry per (group, item) that a member rated, by group, then item.

    `number` counts the contributors and `total` adds up their ratings; `published` is the value of the cell (NaN:
    not published); `rater` is one of the contributors. `rated` and `rating_sums` count and add up
    the ratings of every user of these groups.
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
        """Walk through the release once."""
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
    def there(self) -> np.ndarray:
        """Which of the cells are published."""
        return ~np.isnan(self.published)

    def rows(self, start: int, count: int) -> slice:
        """The entries of consecutive groups."""
        return slice(*np.searchsorted(self.groups, [start, start + count]))

    def among(self, keys: np.ndarray) -> np.ndarray:
        """Which of these cells (group · items + item) hold a real rating."""
        known = self.groups * np.int64(self.n_items) + self.items
        place = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        return known[place] == keys if len(known) else np.zeros(len(keys), dtype=bool)
