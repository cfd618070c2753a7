"""Fit a regularized matrix factorization with biases by alternating least squares ([Chang2009], section 4.1).

[Chang2009] pads with Funk's regularized SVD. Alternating least squares minimises the same objective without a
learning rate, does not depend on the order of the ratings, and each half step is independent per row: rows can be
solved in any blocks, on any worker, with the same bytes.

    prediction(u, i) = mean + A[u] · B[i],   A[u] = [p_u (rank values), b_u, 1],   B[i] = [q_i, 1, b_i].

One half step solves, per user (and likewise per item), the ridge regression

    min Σ (rating − offset − [q_i, 1] · [p, b])² + λ (n + PRIOR) |p|² + λ BIAS_PRIOR b²

with n the user's number of ratings. The part that grows with n is the weighting of ALS-WR; the constant part is a
prior worth PRIOR ratings that keeps users with few ratings from being overfitted. Either alone predicts worse.
docs/decisions/0002-grouping.md explains how both were chosen.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numba import njit

Float32 = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.signedinteger]

RANK = 16
# For ratings that span 4 units, as 1..5 does; it grows in proportion to the span (20 units: 5 times as much).
REGULARIZATION = 0.04
ITERATIONS = 10
PRIOR = 130.0
BIAS_PRIOR = 100.0

# Item factors start small and random: enough to break the symmetry, too little to be taken for signal.
_START_SCALE = 0.1
# The bias of an item before the first half step is its mean deviation, shrunk by this many ratings.
_START_SHRINKAGE = 5.0
# Ratings gathered at a time: (rank + 2) rows of this length stay near the first-level cache.
_GATHER = 256
# Systems solved side by side, one per vector lane.
_LANES = 8
# Where there are more columns than this, rows are summed up tile by tile: the features of a tile (1.3 MB at rank 16)
# stay in the cache while a group of rows passes over them, which saves a third of the time at Netflix size.
_TILE = 20_480
_GROUP = 512


def half_step(
    indptr: IntArray,
    indices: IntArray,
    values: Float32,
    features: Float32,
    offsets: Float32,
    regularization: float,
    out: Float32 | None = None,
) -> Float32:
    """Solve every row's ridge regression of its ratings on the features of the items it rated ([Chang2009], section
    4.1).

    `indptr`, `indices`, `values` are the CSR of any block of rows, with indptr starting at 0. `features` is (columns,
    rank); a constant 1 is added for the bias (kept in the array, it would put every row astride two cache lines).
    `offsets` (columns,) is subtracted from each rating: the mean plus the bias of the other side. Returns (rows, rank
    + 1): the factors, then the bias. A row without ratings gives zeros. A row's bytes depend on its own ratings only,
    not on the block it is solved in.
    """
    rows, width = len(indptr) - 1, features.shape[1] + 1
    if rows < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or len(indices) != len(values):
        raise ValueError(
            f"indptr must run from 0 to the number of ratings, got {len(indptr)} entries for {len(indices)} "
            f"indices and {len(values)} values"
        )
    if len(offsets) != len(features):
        raise ValueError(f"one offset per feature row is needed, got {len(offsets)} for {len(features)} rows")
    if not regularization > 0:
        raise ValueError(f"regularization must be positive, got {regularization}")
    if len(indices) and not (indices.min() >= 0 and indices.max() < len(features)):
        raise ValueError(f"indices must lie in 0..{len(features) - 1}, got {indices.min()}..{indices.max()}")
    if out is None:
        out = np.empty((rows, width), np.float32)
    elif out.shape != (rows, width) or out.dtype != np.float32:
        raise ValueError(f"out must be float32 of shape {(rows, width)}, got {out.dtype} of {out.shape}")
    _solve_rows(
        np.ascontiguousarray(indptr, np.int64),
        np.ascontiguousarray(indices, np.int32),
        np.ascontiguousarray(values, np.float32),
        np.ascontiguousarray(features, np.float32),
        np.ascontiguousarray(offsets, np.float32),
        np.float32(regularization),
        np.float32(regularization * PRIOR),
        np.float32(regularization * BIAS_PRIOR),
        out,
    )
    return out


def start(
    sums: npt.NDArray[np.float64], counts: IntArray, mean: float, rank: int, rng: np.random.Generator
) -> Float32:
    """Return the (items, rank + 1) factors and biases that the first half step over users begins with.

    `sums` and `counts` are each item's sum and number of ratings.
    """
    solution = np.empty((len(counts), rank + 1), np.float32)
    solution[:, :rank] = rng.standard_normal((len(counts), rank), np.float32) * np.float32(_START_SCALE)
    solution[:, rank] = (sums - counts * mean) / (counts + _START_SHRINKAGE)
    solution[counts == 0] = 0.0
    return solution


def regressors(solution: Float32) -> Float32:
    """Return the factors of a half step's [factors, bias]: the features of the other side's half step."""
    return np.ascontiguousarray(solution[:, :-1])


def users_matrix(solution: Float32) -> Float32:
    """Return A = [p_u, b_u, 1] of the users' [p_u, b_u]."""
    return np.hstack([solution, np.ones((len(solution), 1), np.float32)])


def items_matrix(solution: Float32) -> Float32:
    """Return B = [q_i, 1, b_i] of the items' [q_i, b_i]."""
    return np.hstack([regressors(solution), np.ones((len(solution), 1), np.float32), solution[:, -1:]])


def keep_items(csr: sp.csr_array | sp.csr_matrix, fit_items: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return the ratings without those of items outside `fit_items`; the shape stays."""
    if fit_items.shape != (csr.shape[1],) or fit_items.dtype != np.bool_:
        raise ValueError(
            f"fit_items must be {csr.shape[1]} booleans, got {fit_items.dtype} of shape {fit_items.shape}"
        )
    kept = fit_items[csr.indices]
    indptr = np.concatenate(([0], np.cumsum(kept)))[csr.indptr]
    return sp.csr_array((csr.data[kept], csr.indices[kept], indptr), shape=csr.shape)


def factorize(
    csr: sp.csr_array | sp.csr_matrix,
    csc: sp.csc_array | sp.csc_matrix | None = None,
    *,
    rank: int = RANK,
    regularization: float = REGULARIZATION,
    iterations: int = ITERATIONS,
    rng: np.random.Generator,
    fit_items: npt.NDArray[np.bool_] | None = None,
) -> tuple[Float32, Float32, float]:
    """Return A (users, rank + 2), B (items, rank + 2) and the mean, fitted in this process ([Chang2009], section
    4.1).

    Ratings of items outside `fit_items` enter neither the mean nor any factors; such items, and items without
    ratings, get B = [0 … 0, 1, 0], which predicts the user's own level. `csc` is the same matrix by columns; it is
    derived where it is not given or where items are left out.
    """
    if fit_items is not None:
        csr, csc = keep_items(csr, fit_items), None
    if csc is None:
        csc = sp.csc_array(csr)
    mean = float(np.mean(csr.data, dtype=np.float64)) if csr.nnz else 0.0
    sums = np.asarray(csc.sum(axis=0, dtype=np.float64)).ravel()
    items = start(sums, np.diff(csc.indptr), mean, rank, rng)
    users = np.zeros((csr.shape[0], rank + 1), np.float32)
    for _ in range(iterations):
        offsets = items[:, rank] + np.float32(mean)
        users = half_step(csr.indptr, csr.indices, csr.data, regressors(items), offsets, regularization)
        offsets = users[:, rank] + np.float32(mean)
        items = half_step(csc.indptr, csc.indices, csc.data, regressors(users), offsets, regularization)
    return users_matrix(users), items_matrix(items), mean


@njit(cache=True, nogil=True, fastmath=True)
def _dots(
    x0: Float32, x1: Float32, y0: Float32, y1: Float32, y2: Float32, y3: Float32
) -> tuple[np.float32, np.float32, np.float32, np.float32, np.float32, np.float32, np.float32, np.float32]:
    """Compute eight inner products of two rows with four: six loads for eight multiplications."""
    s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = np.float32(0.0)
    for c in range(x0.shape[0]):
        a = x0[c]
        b = x1[c]
        s0 += a * y0[c]
        s1 += a * y1[c]
        s2 += a * y2[c]
        s3 += a * y3[c]
        t0 += b * y0[c]
        t1 += b * y1[c]
        t2 += b * y2[c]
        t3 += b * y3[c]
    return s0, s1, s2, s3, t0, t1, t2, t3


@njit(cache=True, nogil=True, fastmath=True)
def _add_gram(gathered: Float32, used: int, gram: Float32) -> None:
    """Add the inner products of all rows to the lower triangle of gram (tiles may reach above it).

    Rows are sliced here and not by the caller: numba knows that a slice of a row is contiguous, but not that the rows
    of a slice of a matrix are.
    """
    for a in range(0, gathered.shape[0] - 1, 2):
        low, high = gram[a], gram[a + 1]
        x0, x1 = gathered[a, :used], gathered[a + 1, :used]
        for b in range(0, a + 2, 4):
            s0, s1, s2, s3, t0, t1, t2, t3 = _dots(
                x0,
                x1,
                gathered[b, :used],
                gathered[b + 1, :used],
                gathered[b + 2, :used],
                gathered[b + 3, :used],
            )
            low[b] += s0
            low[b + 1] += s1
            low[b + 2] += s2
            low[b + 3] += s3
            high[b] += t0
            high[b + 1] += t1
            high[b + 2] += t2
            high[b + 3] += t3


@njit(cache=True, nogil=True, fastmath=True)
def _gather(
    indices: IntArray, values: Float32, features: Float32, offsets: Float32, gathered: Float32
) -> int:
    """Write the features of these ratings, a row of ones and the ratings' residuals, as columns.

    Returns the number of columns in use: padded with zeros to whole vectors, so that no scalar remainder is left.
    """
    rank = features.shape[1]
    count = indices.shape[0]
    for p in range(count):
        i = indices[p]
        x = features[i]
        for a in range(rank):
            gathered[a, p] = x[a]
        gathered[rank, p] = np.float32(1.0)
        gathered[rank + 1, p] = values[p] - offsets[i]
    used = (count + 31) // 32 * 32
    gathered[:, count:used] = np.float32(0.0)
    return used


@njit(cache=True, nogil=True, fastmath=True)
def _solve_lanes(systems: Float32, width: int) -> None:
    """Solve _LANES systems at once by Cholesky; row `width` of each holds the right side, then the solution.

    systems is (width + 1, width + 1, _LANES): the innermost loops run over lanes, which are vectors of
    fixed length, where the short rows of a single system would mostly be remainders.
    """
    # The right side is one more row of the factorization: that is the forward substitution.
    for j in range(width):
        pivot = systems[j, j]
        for lane in range(_LANES):
            pivot[lane] = np.float32(1.0) / np.sqrt(pivot[lane])
        for i in range(j + 1, width + 1):
            entry = systems[i, j]
            for lane in range(_LANES):
                entry[lane] *= pivot[lane]
        for i in range(j + 1, width + 1):
            left = systems[i, j]
            row = systems[i]
            for k in range(j + 1, min(i + 1, width)):
                right = systems[k, j]
                target = row[k]
                for lane in range(_LANES):
                    target[lane] -= left[lane] * right[lane]
    solution = systems[width]
    for j in range(width - 1, -1, -1):
        pivot = systems[j, j]
        value = solution[j]
        for lane in range(_LANES):
            value[lane] *= pivot[lane]
        for k in range(j):
            right = systems[j, k]
            target = solution[k]
            for lane in range(_LANES):
                target[lane] -= value[lane] * right[lane]


@njit(cache=True, nogil=True, fastmath=True)
def _solve_rows(
    indptr: IntArray,
    indices: IntArray,
    values: Float32,
    features: Float32,
    offsets: Float32,
    per_rating: np.float32,
    constant: np.float32,
    bias_constant: np.float32,
    out: Float32,
) -> None:
    rows, columns = indptr.shape[0] - 1, features.shape[0]
    width = features.shape[1] + 1
    padded = (width + 1 + 3) // 4 * 4
    at_once = _LANES if columns <= _TILE else _GROUP
    # A cache line more than a power of two: else a column's entries compete for the same few cache sets.
    gathered = np.zeros((padded, _GATHER + 16), np.float32)
    grams = np.empty((at_once, padded, padded), np.float32)
    position = np.empty(at_once, np.int64)
    systems = np.empty((width + 1, width + 1, _LANES), np.float32)
    for first in range(0, rows, at_once):
        here = min(at_once, rows - first)
        grams[:] = np.float32(0.0)
        position[:here] = indptr[first : first + here]
        for tile in range(0, columns, _TILE):
            # The last tile takes whatever is left, so that rows need not be sorted to be right.
            limit = tile + _TILE if tile + _TILE < columns else np.iinfo(np.int64).max
            for r in range(here):
                lo, end = position[r], indptr[first + r + 1]
                while lo < end and indices[lo] < limit:
                    hi = min(end, lo + _GATHER)
                    while indices[hi - 1] >= limit:
                        hi -= 1
                    used = _gather(indices[lo:hi], values[lo:hi], features, offsets, gathered)
                    _add_gram(gathered, used, grams[r])
                    lo = hi
                position[r] = lo
        for group in range(0, here, _LANES):
            for lane in range(_LANES):
                # Lanes past the last row solve the last one again; rows without ratings solve λ·x = 0.
                r = min(group + lane, here - 1)
                gram = grams[r]
                count = np.float32(indptr[first + r + 1] - indptr[first + r])
                for a in range(width + 1):
                    row = gram[a]
                    target = systems[a]
                    for b in range(a + 1):
                        target[b, lane] = row[b]
                for a in range(width - 1):
                    systems[a, a, lane] += per_rating * count + constant
                systems[width - 1, width - 1, lane] += bias_constant
            _solve_lanes(systems, width)
            for lane in range(min(_LANES, here - group)):
                row = out[first + group + lane]
                for a in range(width):
                    row[a] = systems[width, a, lane]
