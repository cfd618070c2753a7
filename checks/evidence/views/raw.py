"""The raw data with the names removed, as if published: one record per person, with days where there are any.

Every attack runs on it as on a release: to tell an owner how exposed the data are today (`murmur attack`), and
as the positive control of the gate (an attack that cannot break even this shows nothing by failing elsewhere).
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from checks.profiles import Profiles
from checks.release import BLOCK_CELLS, Release
from checks.truth import Truth


class RawRelease(Release):
    """A truth dressed as a release; nothing of it is ever written as one."""

    def __init__(self, truth: Truth, *, low: float, high: float, k: int = 1) -> None:
        users = truth.users
        self.truth = truth
        self.k, self.l, self.b, self.min_contributors = k, 1, 1, 1
        self.low, self.high, self.step = low, high, 0.0
        self.dtype = np.dtype("<f4")
        self.items = pa.nulls(truth.ratings.shape[1], pa.string())
        self.pseudonyms = pa.array([str(row) for row in range(users)], pa.string())
        self.groups = self.member_group = np.arange(users, dtype=np.int32)
        self.sizes = np.ones(users, dtype=np.int32)
        self.manifest = {
            "method": "raw",
            "series": "unchecked",
            "privacy": {"k": k, "l": 1, "b": 1, "min_contributors": 1},
            "counts": {
                "users": users,
                "items": self.n_items,
                "groups": users,
                "ratings": int(truth.ratings.nnz),
            },
            "rating_scale": [low, high],
            "withheld": {"users": 0, "items": 0, "why": ""},
        }

    def close(self) -> None:
        """There are no working files: the truth has its own."""

    @property
    def dated(self) -> bool:
        """The raw data tell when, where the source does."""
        return self.truth.days is not None

    @property
    def profile_of_group(self) -> np.ndarray:  # type: ignore[override]
        """Everybody for themselves: two people with the same ratings are still two records."""
        return np.arange(self.n_groups)

    @property
    def lengths(self) -> np.ndarray:  # type: ignore[override]
        """Everybody's number of ratings."""
        return np.diff(self.truth.ratings.indptr)

    def blocks(self) -> Iterator[Profiles]:
        """Everybody's ratings, a few people at a time."""
        return (self._block(start, stop) for start, stop in self.ranges())

    def long_blocks(self) -> Iterator[Profiles]:
        """The same by the number of ratings, which fill little of a full table."""
        indptr = self.truth.ratings.indptr
        start = 0
        while start < self.n_groups:
            enough = int(np.searchsorted(indptr, indptr[start] + BLOCK_CELLS, side="right")) - 1
            stop = min(max(enough, start + 1), self.n_groups)
            yield self._block(start, stop)
            start = stop

    def values_seen(self, most: int) -> tuple[np.ndarray, bool]:
        """The different ratings people gave."""
        values, counts = self.truth.value_counts
        return values, len(values) <= most and int(counts.sum()) == self.truth.ratings.nnz

    def _block(self, start: int, stop: int) -> Profiles:
        ratings = self.truth.ratings
        indptr = ratings.indptr[start : stop + 1].astype(np.int64)
        cells = slice(indptr[0], indptr[-1])
        days = None if self.truth.days is None else self.truth.days[cells]
        items = ratings.indices[cells].astype(np.int32, copy=False)
        return Profiles(
            start, indptr - indptr[0], items, ratings.data[cells], self.n_items, self.low, 0.0, days
        )
