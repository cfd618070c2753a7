"""Represent published profiles: consecutive groups of a release, decoded."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Profiles:
    """Represent consecutive groups: the items of each (None: all items) and the published code of each item.

    `days` is when each cell was rated; only the raw data have it (checks/evidence/views/raw.py).
    """

    start: int
    indptr: np.ndarray
    items: np.ndarray | None
    codes: np.ndarray
    n_items: int
    origin: float
    step: float
    days: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Number of groups in the block."""
        return len(self.indptr) - 1

    @property
    def rows_slice(self) -> slice:
        """The rows of these groups among all groups."""
        return slice(self.start, self.start + self.rows)

    @property
    def values(self) -> np.ndarray:
        """The published ratings of all cells in order."""
        return self._values(self.codes)

    @property
    def columns(self) -> np.ndarray:
        """The item position of every cell."""
        if self.items is not None:
            return self.items
        return np.tile(np.arange(self.n_items, dtype=np.int32), self.rows)

    def row_numbers(self) -> np.ndarray:
        """Return the row within the block of every cell."""
        return np.repeat(np.arange(self.rows, dtype=np.int32), np.diff(self.indptr))

    def matrix(self) -> sp.csr_array:
        """Return the ratings as a sparse matrix; a published 0 stays a stored 0."""
        return sp.csr_array((self.values, self.columns, self.indptr), shape=(self.rows, self.n_items))

    def pattern(self) -> sp.csr_array:
        """Return a sparse matrix with 1 where an item is published."""
        ones = np.ones(len(self.codes), dtype=np.float32)
        return sp.csr_array((ones, self.columns, self.indptr), shape=(self.rows, self.n_items))

    def table(self) -> np.ndarray:
        """Return the ratings as a dense array, NaN where an item is not published."""
        if self.items is None:
            return self.values.reshape(self.rows, self.n_items)
        dense = np.full((self.rows, self.n_items), np.nan, dtype=np.float32)
        dense[self.row_numbers(), self.items] = self.values
        return dense

    def at(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return the ratings of some cells (row of the block, item), NaN where an item is not published."""
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
