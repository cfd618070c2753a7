"""Estimate ratings from disguised values by k-means on one person at a time ([Zhang2006], section 4).

The values of a person lie around as many points as there are rating levels. One-dimensional k-means finds the points;
the j-th of them stands for the j-th level. Only the order of the points counts, so neither the person's mean nor the
deviation has to be known.
"""

import math

import numpy as np
import scipy.sparse as sp
from numba import njit

EDGE_SHARE = 0.03  # of a person's values: the mean of so many at either end starts the outer clusters
MOST_ROUNDS = 100


def reconstruct(disguised: sp.csr_array, levels: np.ndarray) -> sp.csr_array:
    """Return ratings for the stored entries (those taken as rated) of every row: one of `levels` (ascending) each.

    Clusters that become empty are dropped and the others keep their rank, as in the paper. Where a row's values do not
    differ there is nothing to order: the middle level stands for all of them.
    """
    levels = np.asarray(levels, dtype=np.float64)
    ranks = cluster_ranks(
        np.asarray(disguised.indptr, np.int64), disguised.data.astype(np.float64), len(levels)
    )
    return sp.csr_array((levels[ranks], disguised.indices, disguised.indptr), shape=disguised.shape)


def reconstruct_continuous(disguised: sp.csr_array, low: float, high: float, segments: int) -> sp.csr_array:
    """Return ratings on a continuous scale, cut into equal segments: the middle of its segment for each entry (section
    4.2)."""
    return reconstruct(disguised, segment_middles(low, high, segments))


def segment_middles(low: float, high: float, segments: int) -> np.ndarray:
    """Return the middle of each of this many equal parts of a scale."""
    return low + (np.arange(segments) + 0.5) * (high - low) / segments


@njit(cache=True, nogil=True)
def cluster_ranks(indptr, values, k):  # type: ignore[no-untyped-def]
    """Return per entry the rank (0 … k − 1) of its cluster among those of its row."""
    out = np.empty(len(values), np.int64)
    for row in range(len(indptr) - 1):
        first, last = indptr[row], indptr[row + 1]
        if last > first:
            _cluster(values[first:last], k, out[first:last])
    return out


@njit(cache=True, nogil=True)
def _cluster(values, k, out):  # type: ignore[no-untyped-def]
    """Run k-means on a few numbers. Sorted, a cluster is a stretch that ends halfway to the next centroid."""
    count = len(values)
    order = np.argsort(values)
    ascending = values[order]
    if ascending[-1] == ascending[0]:
        out[:] = k // 2
        return
    sums = np.zeros(count + 1)
    for place in range(count):
        sums[place + 1] = sums[place] + ascending[place]
    edge = math.ceil(EDGE_SHARE * count)
    lowest, highest = sums[edge] / edge, (sums[count] - sums[count - edge]) / edge
    centroids = lowest + (highest - lowest) * np.arange(k) / max(k - 1, 1)
    ranks, ends = np.arange(k), np.zeros(k, np.int64)
    left = k
    for _ in range(MOST_ROUNDS):
        moved = False
        start, kept = 0, 0
        for c in range(left):
            stop = count
            if c + 1 < left:
                stop = max(
                    start, np.searchsorted(ascending, (centroids[c] + centroids[c + 1]) / 2, side="right")
                )
            if stop == start:
                moved = True
                continue
            # Written at `kept`, read at `c` and `c` + 1: never before it has been read.
            moved |= ends[kept] != stop
            ranks[kept], ends[kept] = ranks[c], stop
            start, kept = stop, kept + 1
        left, start = kept, 0
        for c in range(left):
            centroids[c] = (sums[ends[c]] - sums[start]) / (ends[c] - start)
            start = ends[c]
        if not moved:
            break
    start = 0
    for c in range(left):
        for place in range(start, ends[c]):
            out[order[place]] = ranks[c]
        start = ends[c]
