"""Published profiles: consecutive groups of a release, decoded."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Profiles:
    """Consecutive groups: the items of each (None: all of them) and the published code of each item."""

    start: int
    indptr: np.ndarray
    items: np.ndarray | None
    codes: np.ndarray
    n_items: int
    origin: float
    step: float
    days: np.ndarray | None = None  # when each cell was rated; only the raw data tell (checks/raw.py)

    @property
    def rows(self) -> int:
        """Number of groups in the block."""
        return len(self.indptr) - 1

    @property
    def rows_slice(self) -> slice:
        """Where these groups lie among all groups."""
        return slice(self.start, self.start + self.rows)

    @property
    def values(self) -> np.ndarray:
        """The published ratings, flat, in the order of the cells."""
        return self._values(self.codes)

    @property
    def columns(self) -> np.ndarray:
        """The item position of every cell."""
        if self.items is not None:
            return self.items
        return np.tile(np.arange(self.n_items, dtype=np.int32), self.rows)

    def row_numbers(self) -> np.ndarray:
        """The row within the block of every cell."""
        return np.repeat(np.arange(self.rows, dtype=np.int32), np.diff(self.indptr))

    def matrix(self) -> sp.csr_array:
        """Ratings as a sparse matrix; a published 0 stays a stored 0."""
        return sp.csr_array((self.values, self.columns, self.indptr), shape=(self.rows, self.n_items))

    def pattern(self) -> sp.csr_array:
        """1 where an item is published."""
        ones = np.ones(len(self.codes), dtype=np.float32)
        return sp.csr_array((ones, self.columns, self.indptr), shape=(self.rows, self.n_items))

    def table(self) -> np.ndarray:
        """Ratings as a dense array, NaN where an item is not published."""
        if self.items is None:
            return self.values.reshape(self.rows, self.n_items)
        dense = np.full((self.rows, self.n_items), np.nan, dtype=np.float32)
        dense[self.row_numbers(), self.items] = self.values
        return dense

    def at(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The ratings of some cells (row of the block, item), NaN where an item is not published."""
        if self.items is None:
            return self._values(self.codes[rows * np.int64(self.n_items) + items])
        own = self.row_numbers() * np.int64(self.n_items) + self.items
        wanted = rows * np.int64(self.n_items) + items
        place = np.searchsorted(own, wanted)
        found = np.append(own, -1)[place] == wanted
        values = np.full(len(wanted), np.nan, dtype=np.float32)
        values[found] = self._values(self.codes[place[found]])
        return values

    def _values(self, codes: np.ndarray) -> np.ndarray:
        if codes.dtype == np.float32:
            return codes
        return (self.origin + codes.astype(np.float32) * np.float32(self.step)).astype(np.float32)
