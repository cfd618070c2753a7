"""Cluster vectors by bounded t-means: t virtual centres, no cluster below a least size ([Chang2009], section 4.2,
step 2.2).

It is used twice (Algorithm 1): on the sample, to find √m centres (line 3), and inside each bin, where the clusters of
at least k become the anonymization groups (line 5).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tasks.kernels.metrics import METRICS, distances, with_levels
from tasks.kernels.partition_search import (
    exchange_members,
    fill_groups,
    group_means,
    reassign,
    seed_from_pairs,
    seed_from_points,
)
from tasks.kernels.rating_vectors import (
    DenseVectors,
    RatingVectors,
    distances_between,
    distances_of_some,
    squared_pair_distances,
)

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]

# Up to this number of points all pairwise distances are held (36 MB) and exchanges are evaluated exactly.
_MOST_PAIRED = 3_000
# Points per neighbourhood above that number.
_MOST_NEARBY = 1_500
# Above this number of cells the pairwise distances would cost more than everything after them: the partition is
# then searched in the points' narrow embedding, and refined in the metric itself.
_MOST_CELLS = 2_000_000_000
# Points wider than _NARROW are compared with only _NEIGHBOURS of the centres: the nearest in their embedding.
_NARROW = 32
_NEIGHBOURS = 8
# Dense rows held at a time where points are not dense: 8 MB. They stay in the cache until they are compared;
# multiplying them out again in every round costs less than fetching them from memory.
_DENSE_CELLS = 2_000_000
# Exchanges settle in 5–12 sweeps; the bounds only guard against rounding that never settles.
_SWEEPS = 50
_SWEEPS_PER_ITERATION = 20


def bounded_tmeans(
    points: npt.ArrayLike | RatingVectors,
    *,
    t: int,
    min_size: int,
    metric: str,
    max_diff: float,
    iterations: int,
    rng: np.random.Generator,
    max_size: int | None = None,
) -> tuple[Int32, RatingVectors]:
    """Partition the points into t clusters of at least min_size; return labels and the means of the clusters.

    Minimises the sum of the distances to the own cluster's mean (for `euclidean`, of their squares). Every point gets
    a cluster. `max_size` defaults to twice the mean size, rounded up, which keeps the clusters of a sample balanced.
    Where t = ⌊s/k⌋ and min_size = k it never binds: the spare points, s − t·k < k of them, go where they fit best and
    cannot carry a cluster beyond 2k − 1.

    First, exchanges on pairwise distances search for a partition, from several starts where that is cheap. Then at
    most `iterations` rounds of assignment and means follow in the metric; the best round is kept. `euclidean` needs
    no rounds: its exchanges count exactly the change of the sum of squares.
    """
    x = _as_points(points)
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}; choose one of {', '.join(METRICS)}")
    s = len(x)
    if t < 1 or min_size < 1 or s < t * min_size:
        raise ValueError(
            f"{s} points cannot form t={t} clusters of at least min_size={min_size}: "
            f"needed are t ≥ 1, min_size ≥ 1 and at least {t * min_size} points"
        )
    most = max(min_size, 2 * math.ceil(s / t)) if max_size is None else max_size
    if most < min_size or s > t * most:
        raise ValueError(
            f"{s} points do not fit into t={t} clusters of min_size={min_size} to max_size={most}: "
            f"max_size must be at least {max(min_size, math.ceil(s / t))}"
        )
    if t == 1:
        labels = np.zeros(s, np.int32)
        return labels, x.group_means(labels, 1)
    draws = rng.random((8, t, 2 + int(math.log(t))))  # drawn at once: the stream does not depend on the data
    cells = s**2 * x.cells
    if metric == "euclidean" and s <= _MOST_PAIRED and (x.pairs_are_cheap or cells <= 2 * _MOST_CELLS):
        labels = _search(x.squared_pair_distances(), t, min_size, most, draws)
        return labels, x.group_means(labels, t)
    narrow = x.embedding(rng)
    if s > _MOST_PAIRED:
        labels = _start_large(narrow, t, min_size, most, draws[0])
    elif metric != "euclidean" and cells <= _MOST_CELLS:
        labels = _search(_metric_pairs(x, metric, max_diff), t, min_size, most, draws)
    else:
        labels = _search(squared_pair_distances(narrow), t, min_size, most, draws)
    labels = _refine(x, narrow, labels, t, min_size, most, metric, max_diff, iterations)
    return labels, x.group_means(labels, t)


def _as_points(points: npt.ArrayLike | RatingVectors) -> RatingVectors:
    if isinstance(points, RatingVectors):
        return points
    values = np.ascontiguousarray(points, dtype=np.float32)
    if values.ndim != 2:
        raise ValueError(f"points must be a matrix, got shape {values.shape}")
    return DenseVectors(values)


def _search(pairs: Float32, t: int, least: int, most: int, draws: npt.NDArray[np.float64]) -> Int32:
    """Return the best partition of several starts; small bins get more starts, because each is cheap there."""
    best, best_cost = None, math.inf
    for start in range(max(1, min(len(draws), 1_000 // len(pairs)))):
        seeds = seed_from_pairs(pairs, t, draws[start])
        labels = fill_groups(np.ascontiguousarray(pairs[:, seeds]), least, most)
        cost = exchange_members(pairs, labels, t, least, most, _SWEEPS)
        if best is None or cost < best_cost:
            best, best_cost = labels, cost
    assert best is not None
    return best


def _metric_pairs(points: RatingVectors, metric: str, max_diff: float, rows: int = 64) -> Float32:
    x, levels = points.rows(slice(None)), points.levels(slice(None))
    result = np.empty((len(x), len(x)), np.float32)
    for first in range(0, len(x), rows):
        last = first + rows
        block = distances(x[first:last], x[first:], metric=metric, max_diff=max_diff)
        if levels is not None:
            own, other = levels[first:last, None], levels[None, first:]
            block = with_levels(
                block, own, other, points.width, points.repeats, metric=metric, max_diff=max_diff
            )
        result[first:last, first:] = block
        result[first:, first:last] = block.T
    return result


def _start_large(narrow: Float32, t: int, least: int, most: int, draws: npt.NDArray[np.float64]) -> Int32:
    """Return a first partition of more points than can be paired: bounded t-means on their embedding."""
    seeds = seed_from_points(narrow, t, draws)
    labels = fill_groups(distances(narrow, narrow[seeds], metric="euclidean", max_diff=1.0) ** 2, least, most)
    labels = _refine(DenseVectors(narrow), narrow, labels, t, least, most, "euclidean", 1.0, 10)
    _exchange_nearby(narrow, labels, t, least, most)
    return labels


def _exchange_nearby(x: Float32, labels: Int32, t: int, least: int, most: int) -> None:
    """Exchange members within neighbourhoods of clusters that are small enough to be paired; changes labels."""
    centers = group_means(x, labels, t)
    left = np.ones(t, bool)
    sizes = np.bincount(labels, minlength=t)
    while left.any():
        # Start at the outermost cluster left: from the middle, the rest would be scattered around the rim.
        outermost = np.argmax(np.where(left, np.sum(centers**2, axis=1), -1))
        order = np.argsort(np.sum((centers - centers[outermost]) ** 2, axis=1), kind="stable")
        order = order[left[order]]
        fitting = np.cumsum(sizes[order]) <= _MOST_NEARBY
        chosen = order[: max(1, int(fitting.sum()))]
        left[chosen] = False
        local = np.full(t, -1, np.int32)
        local[chosen] = np.arange(len(chosen), dtype=np.int32)
        members = np.flatnonzero(local[labels] >= 0)
        if len(chosen) > 1:
            within = local[labels[members]]
            exchange_members(squared_pair_distances(x[members]), within, len(chosen), least, most, _SWEEPS)
            labels[members] = chosen[within]


def _refine(
    x: RatingVectors,
    narrow: Float32,
    labels: Int32,
    t: int,
    least: int,
    most: int,
    metric: str,
    max_diff: float,
    iterations: int,
) -> Int32:
    """Alternate means and assignment within the bounds; return the labels of the lowest objective seen.

    For metrics other than the Euclidean the mean is not the best centre, so a round may also increase the objective.
    """
    if len(x) * x.width <= _DENSE_CELLS:
        x = DenseVectors.of(x)  # every round needs them
    everyone = np.arange(len(x))
    best, best_objective = labels, math.inf
    labels = labels.copy()
    for iteration in range(iterations + 1):
        costs = _costs(x, narrow, labels, t, metric, max_diff)
        objective = float(np.sum(costs[everyone, labels], dtype=np.float64))
        if objective >= best_objective:
            break
        best, best_objective = labels.copy(), objective
        if iteration == iterations or not reassign(costs, labels, least, most, _SWEEPS_PER_ITERATION):
            break
    return best


def _costs(x: RatingVectors, narrow: Float32, labels: Int32, t: int, metric: str, max_diff: float) -> Float32:
    """Return the cost of each point at each centre: its distance, for `euclidean` squared.

    With many clusters the cost at centres far from the point is set to infinity: no point moves there, and computing
    these distances would be most of the work. Narrow points cost too little for that to matter.
    """
    means = x.group_means(labels, t)
    centers = means.rows(slice(None))
    costs = np.full((len(x), t), np.inf, np.float32)
    few = t > _NEIGHBOURS and x.width > _NARROW
    narrow_centers = group_means(narrow, labels, t)
    step = min(len(x), max(1, _DENSE_CELLS // max(1, x.width)))
    slab = np.empty((step, x.width), np.float32)
    for start in range(0, len(x), step):
        part = slice(start, min(start + step, len(x)))
        rows = x.rows(part, out=slab[: part.stop - start])
        if few:
            near = _near(narrow[part], narrow_centers, labels[part])
            indptr = np.arange(len(rows) + 1) * near.shape[1]
            block = distances_of_some(
                x, rows, part, means, centers, indptr, near.ravel(), metric=metric, max_diff=max_diff
            )
            np.put_along_axis(costs[part], near, block.reshape(near.shape), axis=1)
        else:
            costs[part] = distances_between(x, rows, part, means, centers, metric=metric, max_diff=max_diff)
    if metric == "euclidean":
        costs *= costs
    return costs


def _near(narrow: Float32, centers: Float32, own: Int32) -> Int32:
    """Return the _NEIGHBOURS nearest centres of each point in the embedding, its own included, in order of index."""
    apart = -2 * (narrow @ centers.T)
    apart += np.sum(centers**2, axis=1)
    apart[np.arange(len(own)), own] = -np.inf
    near = np.argpartition(apart, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
    return np.sort(near, axis=1).astype(np.int32)
