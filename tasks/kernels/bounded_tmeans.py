"""Bounded t-means: t clusters around virtual centres, none below a least size (paper section 4.2, step 2.2).

Used twice (Algorithm 1): on the sample, to find √m centres (line 3), and inside each bin, where the clusters
of at least k become the anonymization groups (line 5).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tasks.kernels.exchange import exchange, fill, means, reassign, seed_from_pairs, seed_from_points
from tasks.kernels.metrics import METRICS, distances

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]

# Up to here all pairwise distances are held (36 MB) and exchanges judged exactly.
_MOST_PAIRED = 3_000
# Points per neighbourhood where there are more.
_MOST_NEARBY = 1_500
# Above so many cells the pairwise distances would cost more than all that follows: a sketch of the points
# serves to find the partition, which is then refined in the metric itself.
_MOST_CELLS = 1_000_000_000
_SKETCH = 32
# Beyond so many clusters a point is compared with its own centre and the centres nearest to that one only.
_NEIGHBOURS = 32
# Exchanges settle in 5–12 sweeps; the bounds only guard against rounding that never settles.
_SWEEPS = 50
_SWEEPS_PER_ITERATION = 20


def bounded_tmeans(
    points: npt.ArrayLike,
    *,
    t: int,
    min_size: int,
    metric: str,
    max_diff: float,
    iterations: int,
    rng: np.random.Generator,
    max_size: int | None = None,
) -> tuple[Int32, Float32]:
    """Partition the points into t clusters of at least min_size; return labels and the means of the clusters.

    Minimised is the sum of the distances to the own cluster's mean, for `euclidean` of their squares. No
    point is left out. `max_size` defaults to twice the mean size, rounded up: a sample's clusters stay
    balanced. Where t = ⌊s/k⌋ and min_size = k it never binds: the spare points, s − t·k < k of them, go where
    they fit best and cannot carry a cluster beyond 2k − 1.

    First a partition is sought by exchanges on pairwise distances, from several starts where that is cheap.
    Then at most `iterations` rounds of assignment and means follow in the metric; the best round is kept.
    `euclidean` needs none: its exchanges count exactly the change of the sum of squares.
    """
    x = np.ascontiguousarray(points, dtype=np.float32)
    if x.ndim != 2:
        raise ValueError(f"points must be a matrix, got shape {x.shape}")
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
        return labels, means(x, labels, 1)
    draws = rng.random((8, t, 2 + int(math.log(t))))  # drawn at once: the stream does not depend on the data
    omega = rng.standard_normal((x.shape[1], min(_SKETCH, x.shape[1])), np.float32)
    if s <= _MOST_PAIRED:
        pairs, exact = _pairs(x, metric, max_diff, omega)
        labels = _search(pairs, t, min_size, most, draws)
    else:
        labels, exact = _start_large(x, t, min_size, most, draws[0], omega), False
    if not exact:
        labels = _refine(x, labels, t, min_size, most, metric, max_diff, iterations)
    return labels, means(x, labels, t)


def _search(pairs: Float32, t: int, least: int, most: int, draws: npt.NDArray[np.float64]) -> Int32:
    """Return the best partition of several starts; small bins get more, since there a start costs little."""
    best, best_cost = None, math.inf
    for start in range(max(1, min(len(draws), 1_000 // len(pairs)))):
        seeds = seed_from_pairs(pairs, t, draws[start])
        labels = fill(np.ascontiguousarray(pairs[:, seeds]), least, most)
        cost = exchange(pairs, labels, t, least, most, _SWEEPS)
        if best is None or cost < best_cost:
            best, best_cost = labels, cost
    assert best is not None
    return best


def _pairs(x: Float32, metric: str, max_diff: float, omega: Float32) -> tuple[Float32, bool]:
    """Return pairwise distances to search with, and whether their pair cost is the objective itself."""
    cells = len(x) ** 2 * x.shape[1]
    if metric == "euclidean":
        # A matrix product takes a quarter of the time of a distance cell.
        if cells <= 4 * _MOST_CELLS:
            return _squared_pairs(x - x.mean(axis=0, dtype=np.float64).astype(np.float32)), True
    elif cells <= 2 * _MOST_CELLS:  # half of the cells are enough
        return _metric_pairs(x, metric, max_diff), False
    return _squared_pairs(_sketch(x, omega)), False


def _squared_pairs(centred: Float32) -> Float32:
    gram = centred @ centred.T
    squares = np.diag(gram).copy()
    gram *= -2
    gram += squares[:, None]
    gram += squares[None, :]
    np.maximum(gram, 0, out=gram)
    np.fill_diagonal(gram, 0)
    return gram


def _metric_pairs(x: Float32, metric: str, max_diff: float, rows: int = 64) -> Float32:
    result = np.empty((len(x), len(x)), np.float32)
    for first in range(0, len(x), rows):
        last = first + rows
        block = distances(x[first:last], x[first:], metric=metric, max_diff=max_diff)
        result[first:last, first:] = block
        result[first:, first:last] = block.T
    return result


def _sketch(x: Float32, omega: Float32) -> Float32:
    """Project onto about the leading principal directions: one step of randomized subspace iteration.

    The padded matrix is nearly of low rank (section 4.1), so little is lost.
    """
    if x.shape[1] <= omega.shape[1]:
        return x - x.mean(axis=0, dtype=np.float64).astype(np.float32)
    image = x @ omega
    image -= image.mean(axis=0)
    directions, _ = np.linalg.qr(x.T @ image)
    coordinates = x @ directions
    coordinates -= coordinates.mean(axis=0)
    return np.ascontiguousarray(coordinates, dtype=np.float32)


def _start_large(
    x: Float32, t: int, least: int, most: int, draws: npt.NDArray[np.float64], omega: Float32
) -> Int32:
    """Return a first partition of more points than can be paired: bounded t-means on their sketch."""
    sketch = _sketch(x, omega)
    seeds = seed_from_points(sketch, t, draws)
    labels = fill(distances(sketch, sketch[seeds], metric="euclidean", max_diff=1.0) ** 2, least, most)
    labels = _refine(sketch, labels, t, least, most, "euclidean", 1.0, 10)
    _exchange_nearby(sketch, labels, t, least, most)
    return labels


def _exchange_nearby(x: Float32, labels: Int32, t: int, least: int, most: int) -> None:
    """Exchange within neighbourhoods of clusters that are small enough to be paired; changes labels."""
    centers = means(x, labels, t)
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
            exchange(_squared_pairs(x[members]), within, len(chosen), least, most, _SWEEPS)
            labels[members] = chosen[within]


def _refine(
    x: Float32, labels: Int32, t: int, least: int, most: int, metric: str, max_diff: float, iterations: int
) -> Int32:
    """Alternate means and assignment within the bounds; return the labels of the lowest objective seen.

    For metrics other than the Euclidean the mean is not the best centre, so a round may also make it worse.
    """
    everyone = np.arange(len(x))
    best, best_objective = labels, math.inf
    labels = labels.copy()
    for iteration in range(iterations + 1):
        costs = _costs(x, labels, means(x, labels, t), metric, max_diff)
        objective = float(np.sum(costs[everyone, labels], dtype=np.float64))
        if objective >= best_objective:
            break
        best, best_objective = labels.copy(), objective
        if iteration == iterations or not reassign(costs, labels, least, most, _SWEEPS_PER_ITERATION):
            break
    return best


def _costs(x: Float32, labels: Int32, centers: Float32, metric: str, max_diff: float) -> Float32:
    """Return what each point costs at each centre: its distance, for `euclidean` squared.

    With many clusters the cost at centres far from the own one is taken as infinite: nobody changes there,
    and the distances would be most of the work. Narrow points cost too little for that to matter.
    """
    t = len(centers)
    if t <= _NEIGHBOURS or x.shape[1] <= _SKETCH:
        costs = distances(x, centers, metric=metric, max_diff=max_diff)
    else:
        costs = np.full((len(x), t), np.inf, np.float32)
        between = _squared_pairs(centers - centers.mean(axis=0, dtype=np.float64).astype(np.float32))
        near = np.argsort(between, axis=1, kind="stable")[:, :_NEIGHBOURS]
        near[:, 0] = np.arange(t)  # a centre's own index, even where another one coincides with it
        members = np.split(
            np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels, minlength=t))[:-1]
        )
        for own, neighbours in zip(members, near, strict=True):
            block = distances(x[own], centers[neighbours], metric=metric, max_diff=max_diff)
            costs[own[:, None], neighbours[None, :]] = block
    if metric == "euclidean":
        costs *= costs
    return costs
