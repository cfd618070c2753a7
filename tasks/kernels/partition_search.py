"""Search for partitions with bounded group sizes: the inner part of bounded t-means ([Chang2009], section 4.2).

A partition is `labels`, group numbers 0..t−1 per point. Every function keeps `least` ≤ size ≤ `most` for every group
and is deterministic: randomness enters as uniform draws made by the caller.

There are two costs. *Pair cost*: the sum over groups of (sum of pairwise distances) / size. With squared Euclidean
distances this is exactly the sum of squared distances to the group means, so moves and swaps are evaluated by their
true effect, centre shift included, without touching the points. *Assignment cost*: the sum of each point's cost at
its group's fixed centre.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def seed_from_pairs(pairs: Float32, t: int, draws: Float64) -> Int64:
    """Choose t distinct points as first centres by k-means++ on a matrix of squared (or plain) distances.

    draws is (t, trials) uniform in [0, 1): of `trials` candidates drawn in proportion to their distance from the
    centres so far, the one that lowers the total most is taken.
    """
    n = pairs.shape[0]
    seeds = np.empty(t, np.int64)
    seeds[0] = min(n - 1, int(draws[0, 0] * n))
    nearest = pairs[seeds[0]].copy()
    taken = np.zeros(n, np.bool_)
    taken[seeds[0]] = True
    cumulated = np.empty(n)
    for c in range(1, t):
        total = 0.0
        for i in range(n):
            total += nearest[i]
            cumulated[i] = total
        best, best_total = -1, np.inf
        for trial in range(draws.shape[1]):
            j = min(n - 1, np.searchsorted(cumulated, draws[c, trial] * total, side="right"))
            while taken[j]:  # rounding, or points that coincide with a centre: take the next free one
                j = (j + 1) % n
            row = pairs[j]
            candidate = 0.0
            for i in range(n):
                candidate += min(nearest[i], row[i])
            if candidate < best_total:
                best, best_total = j, candidate
        seeds[c] = best
        taken[best] = True
        row = pairs[best]
        for i in range(n):
            nearest[i] = min(nearest[i], row[i])
    return seeds


@njit(cache=True, nogil=True, fastmath=True)
def _squared_distance(x: Float32, y: Float32) -> np.float32:
    s = np.float32(0.0)
    for c in range(x.shape[0]):
        e = x[c] - y[c]
        s += e * e
    return s


@njit(cache=True, nogil=True)
def seed_from_points(points: Float32, t: int, draws: Float64) -> Int64:
    """Choose seeds as seed_from_pairs does, for more (narrow) points than a matrix of pairs can hold."""
    n = points.shape[0]
    seeds = np.empty(t, np.int64)
    seeds[0] = min(n - 1, int(draws[0, 0] * n))
    nearest = np.full(n, np.float32(np.inf))
    taken = np.zeros(n, np.bool_)
    cumulated = np.empty(n)
    row, best_row = np.empty(n, np.float32), np.empty(n, np.float32)
    for c in range(t):
        if c == 0:
            center = points[seeds[0]]
            for i in range(n):
                best_row[i] = _squared_distance(points[i], center)
        else:
            total = 0.0
            for i in range(n):
                total += nearest[i]
                cumulated[i] = total
            best_total = np.inf
            for trial in range(draws.shape[1]):
                j = min(n - 1, np.searchsorted(cumulated, draws[c, trial] * total, side="right"))
                while taken[j]:
                    j = (j + 1) % n
                center = points[j]
                candidate = 0.0
                for i in range(n):
                    row[i] = _squared_distance(points[i], center)
                    candidate += min(nearest[i], row[i])
                if candidate < best_total:
                    best_total = candidate
                    seeds[c] = j
                    row, best_row = best_row, row
        taken[seeds[c]] = True
        for i in range(n):
            nearest[i] = min(nearest[i], best_row[i])
    return seeds


@njit(cache=True, nogil=True)
def fill_groups(costs: Float32, least: int, most: int) -> Int32:
    """Assign every point to a group, greedily, within the bounds; costs is (points, groups).

    Points that lose most when their first choice is full (regret) choose first. A group beyond `least` takes from the
    n − t·least spare points, so that enough are left for the others.
    """
    n, t = costs.shape
    regret = np.empty(n, np.float32)
    for i in range(n):
        row = costs[i]
        first = second = np.float32(np.inf)
        for c in range(t):
            if row[c] < first:
                first, second = row[c], first
            elif row[c] < second:
                second = row[c]
        regret[i] = second - first if t > 1 else np.float32(0.0)
    labels = np.empty(n, np.int32)
    sizes = np.zeros(t, np.int64)
    spare = n - t * least
    for i in np.argsort(-regret, kind="mergesort"):  # stable: ties in the order of the points
        row = costs[i]
        best = -1
        for c in range(t):
            if (sizes[c] < least or (spare > 0 and sizes[c] < most)) and (best < 0 or row[c] < row[best]):
                best = c
        if sizes[best] >= least:
            spare -= 1
        sizes[best] += 1
        labels[i] = best
    return labels


@njit(cache=True, nogil=True, fastmath=True)
def _best_swap(
    i: int,
    a: int,
    labels: Int32,
    pair: Float32,
    to_a: Float32,
    to_own: Float32,
    to_groups: Float32,
    inverse: Float32,
    change: Float32,
) -> int:
    """Return the point whose swap with i lowers the pair cost most; change[j] holds the effect of each."""
    here, share = to_a[i], inverse[a]
    for j in range(labels.shape[0]):
        b = labels[j]
        change[j] = (to_a[j] - here - pair[j]) * share + (to_groups[b] - to_own[j] - pair[j]) * inverse[b]
    best = -1
    lowest = np.float32(0.0)
    for j in range(labels.shape[0]):
        if change[j] < lowest and labels[j] != a:
            lowest = change[j]
            best = j
    return best


@njit(cache=True, nogil=True)
def exchange_members(pairs: Float32, labels: Int32, t: int, least: int, most: int, sweeps: int) -> float:
    """Lower the pair cost by moving and swapping points until no change helps; returns the cost, changes labels.

    For each point in turn the best of all swaps and, where the bounds allow it, of all moves is made. This is
    Hartigan's rule: the change of the two means is part of the comparison, which Lloyd's rule leaves out. In groups
    of five a mean lies so near its members that Lloyd's rule stays with the first partition.
    """
    n = pairs.shape[0]
    sums = np.zeros((t, n), np.float32)  # sums[c, i]: distances of i to the members of c
    sizes = np.zeros(t, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
        row, pair = sums[labels[i]], pairs[i]
        for j in range(n):
            row[j] += pair[j]
    to_own = np.empty(n, np.float32)
    within = np.zeros(t)  # sum over the pairs of a group
    for i in range(n):
        to_own[i] = sums[labels[i], i]
        within[labels[i]] += 0.5 * to_own[i]
    inverse = (1.0 / sizes).astype(np.float32)
    to_groups = np.empty(t, np.float32)
    change = np.empty(n, np.float32)
    # Gains below the rounding of the sums could be undone and redone for ever.
    tolerance = 1e-5 * np.mean(pairs)
    for _ in range(sweeps):
        changed = False
        for i in range(n):
            a = labels[i]
            to_a, pair = sums[a], pairs[i]
            for c in range(t):
                to_groups[c] = sums[c, i]
            j = _best_swap(i, a, labels, pair, to_a, to_own, to_groups, inverse, change)
            gain = -float(change[j]) if j >= 0 else 0.0
            goal = -1
            if sizes[a] > least and sizes[a] > 1:
                leave = (within[a] - to_a[i]) / (sizes[a] - 1) - within[a] / sizes[a]
                for b in range(t):
                    if b != a and sizes[b] < most:
                        join = (within[b] + to_groups[b]) / (sizes[b] + 1) - within[b] / sizes[b]
                        if -(leave + join) > gain:
                            gain, goal = -(leave + join), b
            if gain <= tolerance:
                continue
            changed = True
            if goal >= 0:
                b = goal
                within[a] -= to_a[i]
                within[b] += to_groups[b]
                to_b = sums[b]
                for m in range(n):
                    to_a[m] -= pair[m]
                    to_b[m] += pair[m]
                labels[i] = b
                sizes[a] -= 1
                sizes[b] += 1
                inverse[a], inverse[b] = 1.0 / sizes[a], 1.0 / sizes[b]
            else:
                b = labels[j]
                within[a] += to_a[j] - to_a[i] - pair[j]
                within[b] += to_groups[b] - to_own[j] - pair[j]
                to_b, other = sums[b], pairs[j]
                for m in range(n):
                    difference = other[m] - pair[m]
                    to_a[m] += difference
                    to_b[m] -= difference
                labels[i], labels[j] = b, a
            for m in range(n):
                c = labels[m]
                if c == a or c == b:  # noqa: SIM109  (numba compiles `in` to a call)
                    to_own[m] = sums[c, m]
        if not changed:
            break
    return float(np.sum(within / sizes))


@njit(cache=True, nogil=True)
def _refresh(a: int, costs: Float32, labels: Int32, gains: Float32, movers: Int32) -> None:
    """Find, for every other group, the member of a that would change to it at the least extra cost."""
    gains[a, :] = np.float32(np.inf)
    gain, mover = gains[a], movers[a]
    for i in range(labels.shape[0]):
        if labels[i] == a:
            row = costs[i]
            here = row[a]
            for b in range(gain.shape[0]):
                if row[b] - here < gain[b]:
                    gain[b] = row[b] - here
                    mover[b] = i


@njit(cache=True, nogil=True)
def reassign(costs: Float32, labels: Int32, least: int, most: int, sweeps: int) -> bool:
    """Lower the assignment cost by moves and swaps between groups until no change helps; changes labels.

    Returns whether anything changed. Only the cheapest mover per ordered pair of groups is considered, which is exact
    for moves and swaps because the centres do not shift here. An infinite cost forbids a group to a point.
    """
    n, t = costs.shape
    sizes = np.zeros(t, np.int64)
    total = 0.0
    for i in range(n):
        sizes[labels[i]] += 1
        total += costs[i, labels[i]]
    gains = np.empty((t, t), np.float32)
    movers = np.zeros((t, t), np.int32)
    for a in range(t):
        _refresh(a, costs, labels, gains, movers)
    tolerance = 1e-6 * total / n
    any_change = False
    for _ in range(sweeps):
        changed = False
        for a in range(t):
            for b in range(t):
                if a == b:
                    continue
                if sizes[a] > least and sizes[b] < most and gains[a, b] < -tolerance:
                    labels[movers[a, b]] = b
                    sizes[a] -= 1
                    sizes[b] += 1
                elif gains[a, b] + gains[b, a] < -tolerance:
                    i, j = movers[a, b], movers[b, a]
                    labels[i], labels[j] = b, a
                else:
                    continue
                changed = True
                _refresh(a, costs, labels, gains, movers)
                _refresh(b, costs, labels, gains, movers)
        if not changed:
            break
        any_change = True
    return any_change


@njit(cache=True, nogil=True)
def group_means(points: Float32, labels: Int32, t: int) -> Float32:
    """Return the (t, columns) means of the groups, summed in float64 ([Chang2009], section 4.2: virtual centres)."""
    centers = np.empty((t, points.shape[1]), np.float32)
    order = np.argsort(labels, kind="mergesort")
    total = np.empty(points.shape[1])
    position = 0
    for c in range(t):
        total[:] = 0.0
        first = position
        while position < order.shape[0] and labels[order[position]] == c:
            row = points[order[position]]
            for column in range(row.shape[0]):
                total[column] += row[column]
            position += 1
        centers[c] = total / (position - first)
    return centers
