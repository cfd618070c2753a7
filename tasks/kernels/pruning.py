"""Find the nearest centre of every user in the clustering metric, exactly, at a fraction of the comparisons.

With d = |x − y| / max_diff per item, E = mean(d²) and L = mean(d), each of these metrics has a lower bound that needs
no dense rows:

==================  ==============================  ===============================================================
weighted-squared    mean(2d − d²), d capped at 1    ≥ 2L − E    (2d − d² ≤ 1 wherever the cap binds)
weighted            mean(d), d capped at 1          ≥ L − E/4   (d − d²/4 ≤ min(d, 1), since (d/2 − 1)² ≥ 0)
euclidean           √E                              = √E
==================  ==============================  ===============================================================

E comes from the space of the factors (or, where observed ratings are kept, from one matrix product). L ≥ Σ over
segments of items |Σ (x − y)| / (n · max_diff), and where a segment's items have similar factors their differences
have the same sign, so that little is lost: on MovieLens 1M, 128 segments reach 95 % of L. Only the centres whose
bound is not above the best distance found are compared exactly; the result equals that of comparing all of them.
Simpler bounds, E ≤ D and the triangle inequality, leave most centres to be compared (docs/decisions/0008). The
closeness metrics have no such bound: there all centres are compared.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
from numba import njit

from tasks.kernels.metrics import distances, nearest
from tasks.kernels.rating_vectors import RatingVectors, distances_between, distances_of_some

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

SEGMENTS = 128
_ROWS = 512  # users whose dense rows are held at a time
_FIRST = 4  # centres compared before the bounds are used: four cost little more than one
_KERNEL_ROUNDING = 2e-5  # of a distance: float32 sums here and in kernels/metrics.py, see its tests


def find_nearest(
    x: RatingVectors, y: RatingVectors, *, metric: str, max_diff: float
) -> tuple[Int32, Float32]:
    """Return for each vector of x the index of its nearest vector of y and its distance; ties: the lowest index.

    Equal to `metrics.nearest` of the dense rows.
    """
    centers = y.rows(slice(None))
    index, distance = np.empty(len(x), np.int32), np.empty(len(x), np.float32)
    # One buffer for all blocks: fresh memory for each costs more than filling it.
    buffer = np.empty((min(_ROWS, len(x)), x.width), np.float32)
    for start in range(0, len(x), _ROWS):
        part = slice(start, min(start + _ROWS, len(x)))
        rows = x.rows(part, out=buffer[: part.stop - start])
        bounds = lower_bounds(x, y, part, metric=metric, max_diff=max_diff)
        if bounds is not None:
            index[part], distance[part] = _nearest(x, rows, part, y, centers, bounds, metric, max_diff)
        elif x.repeats:
            every = distances_between(x, rows, part, y, centers, metric=metric, max_diff=max_diff)
            index[part], distance[part] = every.argmin(axis=1), every.min(axis=1)
        else:
            index[part], distance[part] = nearest(rows, centers, metric=metric, max_diff=max_diff)
    return index, distance


def lower_bounds(
    x: RatingVectors, y: RatingVectors, part: slice, *, metric: str, max_diff: float
) -> Float32 | None:
    """Return lower bounds on the distances of some of x to all of y as computed; None for metrics without a bound."""
    if metric.startswith("closeness") or x.segments is None:
        return None
    bound, error = x.squared_distances_to(y, part)  # of the size of the answer, and made into it in place
    cells = x.cells * max_diff**2
    # A distance changes by at most twice what its entries do (the slope of 2d − d²), on both sides.
    slack = 4 * (x.rounding_error + y.rounding_error) / max_diff
    if metric == "euclidean":
        bound -= np.float32(error)
        np.maximum(bound, 0, out=bound)
        np.sqrt(bound, out=bound)
        bound *= np.float32((1 - _KERNEL_ROUNDING) / np.sqrt(cells))
    else:
        linear, square = (2.0, 1.0) if metric == "weighted-squared" else (1.0, 0.25)
        apart, apart_error = _cityblock(x.segment_sums(part), y.segment_sums(slice(None)))
        apart *= np.float32((1 - _KERNEL_ROUNDING) * linear / max_diff)
        bound *= np.float32(-square / cells)
        bound += apart
        slack += square * error / cells + linear * apart_error / max_diff
    bound -= np.float32(slack)
    return bound


def _nearest(
    x: RatingVectors,
    rows: Float32,
    part: slice,
    y: RatingVectors,
    centers: Float32,
    bounds: Float32,
    metric: str,
    max_diff: float,
) -> tuple[Int32, Float32]:
    """Compare the most promising centres, then all that may still be nearer (or as near, with a lower index)."""
    compare = partial(distances_of_some, x, rows, part, y, centers, metric=metric, max_diff=max_diff)
    first = _most_promising(bounds, min(_FIRST, len(centers)))
    indptr = np.arange(len(rows) + 1) * first.shape[1]
    found = compare(indptr, first.ravel()).reshape(first.shape)
    index, distance = _best(first, found)
    indptr, rest = _undecided(bounds, distance, first)
    more = compare(indptr, rest)
    _improve(index, distance, indptr, rest, more)
    return index, distance


def _cityblock(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[Float32, float]:
    """Return sums of absolute differences and their error, by the kernel of `weighted` with a cap that is never
    reached.

    Both sides are moved to the middle of one: on a scale of 1000 to 1004 float32 would resolve little of the
    differences.
    """
    middle = y.mean(axis=0)
    x, y = x - middle, y - middle
    beyond = 1.0 + np.abs(x).max(initial=0) + np.abs(y).max(initial=0)
    sums = distances(x, y, metric="weighted", max_diff=beyond)
    sums *= np.float32(beyond * x.shape[1])
    longest = sum(float(np.abs(side).sum(axis=1).max(initial=0)) for side in (x, y))
    return sums, float(np.finfo(np.float32).eps) * longest


@njit(cache=True, nogil=True)
def _most_promising(bounds: Float32, count: int) -> Int32:
    """Return the `count` centres of lowest bound for each row, by bound; ties in order of index."""
    chosen = np.empty((bounds.shape[0], count), np.int32)
    for i in range(bounds.shape[0]):
        row, best = bounds[i], chosen[i]
        held = 0
        for j in range(row.shape[0]):
            if held == count and row[j] >= row[best[count - 1]]:
                continue
            place = min(held, count - 1)
            while place > 0 and row[best[place - 1]] > row[j]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = j
            held = min(count, held + 1)
    return chosen


@njit(cache=True, nogil=True)
def _best(columns: Int32, values: Float32) -> tuple[Int32, Float32]:
    index = np.empty(columns.shape[0], np.int32)
    distance = np.empty(columns.shape[0], np.float32)
    for i in range(columns.shape[0]):
        best = 0
        for p in range(1, columns.shape[1]):
            nearer = values[i, p] < values[i, best]
            if nearer or (values[i, p] == values[i, best] and columns[i, p] < columns[i, best]):
                best = p
        index[i], distance[i] = columns[i, best], values[i, best]
    return index, distance


@njit(cache=True, nogil=True)
def _undecided(bounds: Float32, distance: Float32, done: Int32) -> tuple[Int64, Int32]:
    """List the centres that may be as near as the best found, without those already compared."""
    indptr = np.zeros(bounds.shape[0] + 1, np.int64)
    for i in range(bounds.shape[0]):
        row, most = bounds[i], distance[i]
        count = 0
        for j in range(row.shape[0]):
            count += row[j] <= most
        for p in range(done.shape[1]):
            count -= row[done[i, p]] <= most
        indptr[i + 1] = indptr[i] + count
    columns = np.empty(indptr[-1], np.int32)
    for i in range(bounds.shape[0]):
        row, most = bounds[i], distance[i]
        place = indptr[i]
        for j in range(row.shape[0]):
            if row[j] <= most:
                known = False
                for p in range(done.shape[1]):
                    known |= done[i, p] == j
                if not known:
                    columns[place] = j
                    place += 1
    return indptr, columns


@njit(cache=True, nogil=True)
def _improve(index: Int32, distance: Float32, indptr: Int64, columns: Int32, values: Float32) -> None:
    for i in range(index.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            if values[p] < distance[i] or (values[p] == distance[i] and columns[p] < index[i]):
                index[i], distance[i] = columns[p], values[p]
