"""Show the raw data with the names removed as if they were published: one record per person, with days where known.

Every attack runs on this view as on a release: to show an owner how exposed the data are today (`murmur attack`), and
as the positive control of the gate (an attack that cannot break the raw data proves nothing by failing elsewhere).
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from checks.evidence import release_view
from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.release_view import Listing, ReleaseView
from checks.evidence.truth import Truth

MIN_CONTROL_SHARE = 0.5  # share of the raw data that an attack must break to count as working


class RawRelease(ReleaseView):
    """Represent the source ratings as a release; nothing of it is ever written as one."""

    def __init__(self, truth: Truth, *, low: float, high: float, k: int = 1) -> None:
        users, items = truth.ratings.shape
        self.truth = truth
        names = pa.array([str(row) for row in range(users)], pa.string())
        rows = np.arange(users, dtype=np.int32)
        listing = Listing(pa.nulls(items, pa.string()), rows, np.ones(users, dtype=np.int32), names, rows)
        counts = {"users": users, "items": items, "groups": users, "ratings": int(truth.ratings.nnz)}
        manifest = {
            "method": "raw",
            "series": "unchecked",
            "privacy": {"k": k, "l": 1, "b": 1, "min_contributors": 1},
            "counts": counts,
            "rating_scale": [low, high],
            "withheld": {"users": 0, "items": 0, "why": ""},
        }
        super().__init__(manifest, listing, step=0.0, dtype=np.dtype("<f4"))

    def close(self) -> None:
        """Do nothing: the working files are those of the source ratings."""

    @property
    def dated(self) -> bool:
        """Whether the source has the days of the ratings."""
        return self.truth.days is not None

    @property
    def profile_of_group(self) -> np.ndarray:  # type: ignore[override]
        """One number per person: two people with the same ratings are still two records."""
        return np.arange(self.n_groups)

    @property
    def lengths(self) -> np.ndarray:
        """Number of ratings of every person."""
        return np.diff(self.truth.ratings.indptr)

    def blocks(self) -> Iterator[Profiles]:
        """Yield the ratings of some people at a time."""
        return (self._block(start, stop) for start, stop in self.ranges())

    def long_blocks(self) -> Iterable[Profiles]:
        """Yield blocks with about equal numbers of ratings, which fill little of a full table."""
        indptr = self.truth.ratings.indptr
        start = 0
        while start < self.n_groups:
            enough = int(np.searchsorted(indptr, indptr[start] + release_view.BLOCK_CELLS, side="right")) - 1
            stop = min(max(enough, start + 1), self.n_groups)
            yield self._block(start, stop)
            start = stop

    def distinct_values(self, most: int) -> tuple[np.ndarray, bool]:
        """Return the different ratings that were given, and whether these are all of them."""
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


def raw_view(case: Case) -> Case:
    """Return the case in which the same people's raw data are published with only the names removed."""
    if is_raw(case):
        return case
    return case.cached("raw", lambda: _raw(case))


def is_raw(case: Case) -> bool:
    """Return whether the case shows raw data, which promise nothing."""
    return isinstance(case.release, RawRelease)


def _raw(case: Case) -> Case:
    truth = case.truth.listed_at(np.arange(case.truth.users, dtype=np.int32))
    return case.with_release(
        RawRelease(truth, low=case.release.low, high=case.release.high, k=case.release.k), truth
    )


def allowed_text(case: Case, allowed: float) -> str:
    """Return the part of a detail sentence that names the allowed risk, and why no attack can exceed it, where none
    can; empty for raw data."""
    if is_raw(case):
        return ""
    bounded = (
        f", which no attack can exceed: at least {int(case.people.min()):,} people share every profile (k-anonymity)"
        if case.keeps_by_construction(allowed)
        else ""
    )
    return f", allowed 1/k = {allowed:.4f}{bounded}"
