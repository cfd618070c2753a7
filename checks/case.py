"""What every check is given: the release, the truth, and the sums both sides agree on."""

import datetime
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from checks.release import Release
from checks.truth import Truth
from tasks.engine import Engine
from tasks.errors import Refused

MAX_TARGETS = 2_000


@dataclass(frozen=True)
class Case:
    """One release before the gate. Offline (`murmur verify`) there is nothing but the published files."""

    release: Release
    given_truth: Truth | None = None
    private: Path | None = None
    snapshot: datetime.date | None = None
    engine: Engine | None = None

    @property
    def offline(self) -> bool:
        """True when only the published files are at hand."""
        return self.given_truth is None

    @property
    def truth(self) -> Truth:
        """The source's ratings; checks that need them cannot run offline."""
        if self.given_truth is None:
            raise Refused(
                "this check needs the source and the private membership", remedy="run `murmur audit`"
            )
        return self.given_truth

    @cached_property
    def belongs(self) -> sp.csr_array:
        """Groups × users: 1 where the release lists the user in the group."""
        rows = self.truth.row_of_user
        listed = np.flatnonzero(rows >= 0)
        ones = np.ones(len(listed), dtype=np.float32)
        return sp.csr_array((ones, (rows[listed], listed)), shape=(self.release.n_groups, len(rows)))

    @cached_property
    def contributors(self) -> sp.csr_array:
        """Groups × items: how many members really rated the item."""
        return sorted_rows(self.belongs @ self.truth.pattern)

    @cached_property
    def rating_sums(self) -> sp.csr_array:
        """Groups × items: the sum of the members' real ratings, stored where there are contributors."""
        counts = self.contributors
        sums = sorted_rows(self.belongs @ self.truth.ratings)
        if sums.nnz == counts.nnz and np.array_equal(sums.indices, counts.indices):
            return sums
        return align(sums, counts)  # ratings that cancel out to 0 must not vanish from the pattern

    @cached_property
    def members(self) -> np.ndarray:
        """Real people (in source and membership) listed per group."""
        return np.asarray(self.belongs.sum(axis=1)).ravel().astype(np.int64)

    def targets(self, *names: object) -> np.ndarray:
        """Users to attack: all, or the same seeded sample of them for everyone who uses these names."""
        known = np.flatnonzero((self.truth.row_of_user >= 0) & (np.diff(self.truth.ratings.indptr) > 0))
        if len(known) <= MAX_TARGETS:
            return known
        return np.sort(seeded(*names).choice(known, MAX_TARGETS, replace=False))

    @cached_property
    def cell_of_rating(self) -> np.ndarray:
        """For every rating of a listed user (`listed_ratings`), its entry of `contributors`."""
        users, width = self.rating_rows[self.listed_ratings], np.int64(self.release.n_items)
        keys = self.truth.row_of_user[users] * width + self.truth.ratings.indices[self.listed_ratings]
        return np.searchsorted(cell_keys(self.contributors), keys)

    @cached_property
    def rating_rows(self) -> np.ndarray:
        """The user of every rating."""
        return np.repeat(np.arange(self.truth.users), np.diff(self.truth.ratings.indptr))

    @cached_property
    def listed_ratings(self) -> np.ndarray:
        """Positions of the ratings of users who are in a group."""
        return np.flatnonzero(self.truth.row_of_user[self.rating_rows] >= 0)

    @cached_property
    def published(self) -> np.ndarray:
        """The published value of every entry of `contributors`; NaN where the item is not published there."""
        counts = self.contributors
        values = np.empty(counts.nnz, dtype=np.float32)
        for block in self.release.blocks():
            first, last = counts.indptr[block.start], counts.indptr[block.start + block.rows]
            rows = np.repeat(
                np.arange(block.rows), np.diff(counts.indptr[block.start : block.start + block.rows + 1])
            )
            values[first:last] = block.table()[rows, counts.indices[first:last]]
        return values


def seeded(*names: object) -> np.random.Generator:
    """A fixed random stream: an audit of the same release attacks the same targets."""
    digest = np.frombuffer("/".join(map(str, names)).encode(), dtype=np.uint8)
    return np.random.default_rng([20100, *digest.tolist()])


def sorted_rows(matrix: sp.csr_array) -> sp.csr_array:
    """With the columns of each row ascending (sparse products leave them in any order)."""
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return matrix


def cell_keys(matrix: sp.csr_array) -> np.ndarray:
    """One ascending number per stored entry: row · columns + column."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices


def align(values: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """`values` stored exactly where `pattern` stores something, zeros included."""
    data = np.zeros(pattern.nnz, dtype=np.float32)
    data[np.searchsorted(cell_keys(pattern), cell_keys(values))] = values.data
    return sp.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
