"""Compute distances between padded rating vectors, in dense float32 blocks ([Chang2009], section 4.2).

With d = |x − y| / max_diff per item, the five metrics ("Similarity Metric") are

==================  ===================================================================
weighted-squared    mean(2d − d²), d capped at 1: the paper's 1 − mean((1 − d)²), a true metric
weighted            mean(d), d capped at 1: the paper's "weights per range", read as linear
closeness-0.5       share of items whose ratings lie more than 0.5 rating units apart
closeness-1.0       share of items whose ratings lie more than 1.0 rating units apart
euclidean           √mean(d²), not capped
==================  ===================================================================

d is capped because predictions may leave the rating scale; a concave function of |x − y| stays one when capped, so
`weighted-squared` keeps the triangle inequality. All values must be finite.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]

DEFAULT_METRIC = "weighted-squared"
METRICS = (DEFAULT_METRIC, "weighted", "closeness-0.5", "closeness-1.0", "euclidean")

_WEIGHTED_SQUARED, _WEIGHTED, _CLOSENESS, _EUCLIDEAN = range(4)
# A partial sum covers so few columns that float32 rounding stays far below 1e-5, and five row pieces of
# this width stay in the first-level cache.
_COLUMNS = 1024
# The pieces of this many X rows stay in the second-level cache while all Y rows pass by.
_ROWS = 64


def distances(X: npt.ArrayLike, Y: npt.ArrayLike, *, metric: str, max_diff: float) -> Float32:
    """Return the (len(X), len(Y)) distances between every row of X and every row of Y ([Chang2009], section 4.2).

    An entry has the same bytes whatever block of rows it is computed in, and distances(X, Y) is exactly the transpose
    of distances(Y, X).
    """
    code, bound, scale = _resolve(metric, max_diff)
    x, y = _rows(X, Y)
    return _distances(x, y, code, bound, _per_cell(scale, x.shape[1]))


def nearest(X: npt.ArrayLike, Y: npt.ArrayLike, *, metric: str, max_diff: float) -> tuple[Int32, Float32]:
    """Return for each row of X the index of the nearest row of Y, and its distance ([Chang2009], section 4.2, step
    2.3).

    Ties go to the lowest index. Agrees exactly with the argmin of `distances`, without holding that matrix.
    """
    code, bound, scale = _resolve(metric, max_diff)
    x, y = _rows(X, Y)
    if len(y) == 0:
        raise ValueError("nearest needs at least one row in Y, got 0")
    return _nearest(x, y, code, bound, _per_cell(scale, x.shape[1]))


def distances_of_pairs(
    X: npt.ArrayLike,
    Y: npt.ArrayLike,
    indptr: npt.NDArray[np.int64],
    columns: Int32,
    *,
    metric: str,
    max_diff: float,
) -> Float32:
    """Return the distances of given pairs only: row i of X to the rows columns[indptr[i]:indptr[i + 1]] of Y.

    An entry has the bytes it has in `distances`.
    """
    code, bound, scale = _resolve(metric, max_diff)
    x, y = _rows(X, Y)
    return _distances_of_pairs(x, y, indptr, columns, code, bound, _per_cell(scale, x.shape[1]))


def with_levels(
    found: Float32,
    own: Float32,
    other: Float32,
    columns: int,
    repeats: int,
    *,
    metric: str,
    max_diff: float,
) -> Float32:
    """Return distances over `columns` items, which are given, and `repeats` more, on each of which the pair differs by
    own − other."""
    _, bound, scale = _resolve(metric, max_diff)
    apart = np.abs(own - other)
    if metric.startswith("closeness"):
        terms = (apart > bound).astype(np.float32)
    elif metric == "euclidean":
        terms = apart * apart
    else:
        capped = np.minimum(apart, bound)
        terms = capped if metric == "weighted" else capped * (bound + bound - capped)
    terms = terms * np.float32(scale)
    given, more = (np.float32(number / (columns + repeats)) for number in (columns, repeats))
    if metric == "euclidean":
        return np.sqrt(found * found * given + terms * more)
    return np.minimum(found * given + terms * more, np.float32(1))


def _resolve(metric: str, max_diff: float) -> tuple[int, np.float32, float]:
    """Return the kernel's code, its cap or threshold in rating units, and the factor onto the sum."""
    if not (np.isfinite(max_diff) and max_diff > 0):
        raise ValueError(f"max_diff must be a positive number, got {max_diff}")
    if metric == "weighted-squared":
        return _WEIGHTED_SQUARED, np.float32(max_diff), 1.0 / max_diff**2
    if metric == "weighted":
        return _WEIGHTED, np.float32(max_diff), 1.0 / max_diff
    if metric == "closeness-0.5":
        return _CLOSENESS, np.float32(0.5), 1.0
    if metric == "closeness-1.0":
        return _CLOSENESS, np.float32(1.0), 1.0
    if metric == "euclidean":
        return _EUCLIDEAN, np.float32(max_diff), 1.0 / max_diff**2
    raise ValueError(f"unknown metric {metric!r}; choose one of {', '.join(METRICS)}")


def _rows(X: npt.ArrayLike, Y: npt.ArrayLike) -> tuple[Float32, Float32]:
    x = np.ascontiguousarray(X, dtype=np.float32)
    y = np.ascontiguousarray(Y, dtype=np.float32)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"X and Y must be matrices of equal width, got shapes {x.shape} and {y.shape}")
    return x, y


def _per_cell(scale: float, columns: int) -> np.float32:
    """Convert the scale of a sum over the columns into that of a mean; vectors without entries have distance 0."""
    return np.float32(scale / max(columns, 1))


@njit(cache=True, nogil=True, fastmath=True)
def _weighted_squared(a: np.float32, b: np.float32, cap: np.float32) -> np.float32:
    # cap²·(2d − d²) = e·(2·cap − e): exactly 0 for equal ratings and without the cancellation of 1 − (1−d)²
    e = min(cap, abs(a - b))
    return e * (cap + cap - e)


@njit(cache=True, nogil=True, fastmath=True)
def _weighted(a: np.float32, b: np.float32, cap: np.float32) -> np.float32:
    return min(cap, abs(a - b))


@njit(cache=True, nogil=True, fastmath=True)
def _apart(a: np.float32, b: np.float32, threshold: np.float32) -> np.float32:
    return np.float32(1.0) if abs(a - b) > threshold else np.float32(0.0)


@njit(cache=True, nogil=True, fastmath=True)
def _squared(a: np.float32, b: np.float32) -> np.float32:
    e = a - b
    return e * e


@njit(cache=True, nogil=True, fastmath=True)
def _sum4(
    x: Float32, y0: Float32, y1: Float32, y2: Float32, y3: Float32, code: int, bound: np.float32
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """Sum the per-item terms of one row against four: one load of x serves four, all sums in registers.

    The metric is chosen outside the loops: a branch inside would keep them from being vectorized.
    """
    s0 = s1 = s2 = s3 = np.float32(0.0)
    if code == _WEIGHTED_SQUARED:
        for c in range(x.shape[0]):
            a = x[c]
            s0 += _weighted_squared(a, y0[c], bound)
            s1 += _weighted_squared(a, y1[c], bound)
            s2 += _weighted_squared(a, y2[c], bound)
            s3 += _weighted_squared(a, y3[c], bound)
    elif code == _WEIGHTED:
        for c in range(x.shape[0]):
            a = x[c]
            s0 += _weighted(a, y0[c], bound)
            s1 += _weighted(a, y1[c], bound)
            s2 += _weighted(a, y2[c], bound)
            s3 += _weighted(a, y3[c], bound)
    elif code == _CLOSENESS:
        for c in range(x.shape[0]):
            a = x[c]
            s0 += _apart(a, y0[c], bound)
            s1 += _apart(a, y1[c], bound)
            s2 += _apart(a, y2[c], bound)
            s3 += _apart(a, y3[c], bound)
    else:
        for c in range(x.shape[0]):
            a = x[c]
            s0 += _squared(a, y0[c])
            s1 += _squared(a, y1[c])
            s2 += _squared(a, y2[c])
            s3 += _squared(a, y3[c])
    return s0, s1, s2, s3


@njit(cache=True, nogil=True)
def _finish(total: np.float32, code: int, scale: np.float32) -> np.float32:
    mean = total * scale
    if code == _EUCLIDEAN:
        return np.float32(np.sqrt(mean))
    return min(mean, np.float32(1.0))  # the others are means of shares: rounding may not carry them above 1


@njit(cache=True, nogil=True)
def _fill(x: Float32, y: Float32, code: int, bound: np.float32, scale: np.float32, out: Float32) -> None:
    """Write the distances of at most _ROWS rows of x to all rows of y; out is padded to a multiple of 4."""
    last = y.shape[0] - 1
    columns = x.shape[1]
    out[:] = np.float32(0.0)
    for lo in range(0, columns, _COLUMNS):
        hi = min(columns, lo + _COLUMNS)
        for j in range(0, y.shape[0], 4):
            # Past the end the last row is repeated into the padding: one code path, so equal bytes.
            y0 = y[j, lo:hi]
            y1 = y[min(j + 1, last), lo:hi]
            y2 = y[min(j + 2, last), lo:hi]
            y3 = y[min(j + 3, last), lo:hi]
            for i in range(x.shape[0]):
                s0, s1, s2, s3 = _sum4(x[i, lo:hi], y0, y1, y2, y3, code, bound)
                row = out[i]
                row[j] += s0
                row[j + 1] += s1
                row[j + 2] += s2
                row[j + 3] += s3
    for i in range(x.shape[0]):
        row = out[i]
        for j in range(y.shape[0]):
            row[j] = _finish(row[j], code, scale)


@njit(cache=True, nogil=True)
def _padded(count: int) -> int:
    return (count + 3) // 4 * 4


@njit(cache=True, nogil=True)
def _distances(x: Float32, y: Float32, code: int, bound: np.float32, scale: np.float32) -> Float32:
    result = np.empty((x.shape[0], y.shape[0]), np.float32)
    block = np.empty((_ROWS, _padded(y.shape[0])), np.float32)
    for start in range(0, x.shape[0], _ROWS):
        stop = min(x.shape[0], start + _ROWS)
        _fill(x[start:stop], y, code, bound, scale, block[: stop - start])
        result[start:stop] = block[: stop - start, : y.shape[0]]
    return result


@njit(cache=True, nogil=True)
def _nearest(
    x: Float32, y: Float32, code: int, bound: np.float32, scale: np.float32
) -> tuple[Int32, Float32]:
    index = np.empty(x.shape[0], np.int32)
    distance = np.empty(x.shape[0], np.float32)
    block = np.empty((_ROWS, _padded(y.shape[0])), np.float32)
    for start in range(0, x.shape[0], _ROWS):
        stop = min(x.shape[0], start + _ROWS)
        _fill(x[start:stop], y, code, bound, scale, block[: stop - start])
        for i in range(start, stop):
            row = block[i - start]
            best = 0
            for j in range(1, y.shape[0]):
                if row[j] < row[best]:
                    best = j
            index[i] = best
            distance[i] = row[best]
    return index, distance


@njit(cache=True, nogil=True)
def _distances_of_pairs(
    x: Float32,
    y: Float32,
    indptr: npt.NDArray[np.int64],
    columns: Int32,
    code: int,
    bound: np.float32,
    scale: np.float32,
) -> Float32:
    out = np.zeros(columns.shape[0], np.float32)
    for lo in range(0, x.shape[1], _COLUMNS):
        hi = min(x.shape[1], lo + _COLUMNS)
        for i in range(x.shape[0]):
            a = x[i, lo:hi]
            last = indptr[i + 1] - 1
            for p in range(indptr[i], indptr[i + 1], 4):
                # Past the end the last pair is repeated and not stored: one code path, so equal bytes.
                y0 = y[columns[p], lo:hi]
                y1 = y[columns[min(p + 1, last)], lo:hi]
                y2 = y[columns[min(p + 2, last)], lo:hi]
                y3 = y[columns[min(p + 3, last)], lo:hi]
                s0, s1, s2, s3 = _sum4(a, y0, y1, y2, y3, code, bound)
                out[p] += s0
                if p + 1 <= last:
                    out[p + 1] += s1
                if p + 2 <= last:
                    out[p + 2] += s2
                if p + 3 <= last:
                    out[p + 3] += s3
    for p in range(out.shape[0]):
        out[p] = _finish(out[p], code, scale)
    return out
