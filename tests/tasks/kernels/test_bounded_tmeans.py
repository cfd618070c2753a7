"""Test bounded_tmeans.py and partition_search.py: bounds, quality against known optima, determinism."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tasks.kernels import partition_search
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.kernels.metrics import METRICS, distances


def cluster(
    points: np.ndarray, t: int, min_size: int, seed: int = 0, **changes
) -> tuple[np.ndarray, np.ndarray]:
    options = {"metric": "euclidean", "max_diff": 4.0, "iterations": 10, "rng": np.random.default_rng(seed)}
    labels, centers = bounded_tmeans(points, t=t, min_size=min_size, **(options | changes))
    return labels, centers.rows(slice(None))


def low_rank(rows: int, columns: int, rank: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    return (3.5 + 0.4 * signal + 0.1 * rng.normal(size=(rows, columns))).astype(np.float32)


def sum_of_squares(points: np.ndarray, labels: np.ndarray) -> float:
    points = points.astype(np.float64)
    return sum(((points[labels == c] - points[labels == c].mean(0)) ** 2).sum() for c in np.unique(labels))


def total_distance(points: np.ndarray, centers: np.ndarray, labels: np.ndarray, metric: str) -> float:
    """Return the sum of all points' distances to the center of their group."""
    return distances(points, centers, metric=metric, max_diff=4.0)[np.arange(len(points)), labels].sum()


def groups_of(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}


LINE = np.array([[1.0], [1.1], [1.2], [3.0], [4.9], [5.0]])


@pytest.mark.parametrize("metric", METRICS)
def test_worked_example_of_two_obvious_groups(metric: str) -> None:
    points = np.array([[1.0, 5.0], [1.2, 4.8], [5.0, 1.0], [4.8, 1.2], [1.1, 4.9]])
    labels, centers = cluster(points, 2, 2, metric=metric)
    assert labels.dtype == np.int32
    assert centers.dtype == np.float32
    assert groups_of(labels) == {frozenset({0, 1, 4}), frozenset({2, 3})}
    np.testing.assert_allclose(centers[labels[0]], [1.1, 4.9], rtol=1e-6)
    np.testing.assert_allclose(centers[labels[2]], [4.9, 1.1], rtol=1e-6)


def test_worked_example_where_the_bound_binds() -> None:
    """Free, {3.0} would be alone or with 1.x; with two of three each it must join 4.9 and 5.0."""
    labels, centers = cluster(LINE, 2, 3)
    assert groups_of(labels) == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}
    assert sorted(centers.ravel().tolist()) == pytest.approx([1.1, 4.3], rel=1e-6)


def test_spare_point_joins_the_nearest_cluster() -> None:
    points = np.array([[1.0], [1.1], [3.0], [3.1], [1.2], [5.0], [5.1]])
    labels, _ = cluster(points, 3, 2)
    assert groups_of(labels) == {frozenset({0, 1, 4}), frozenset({2, 3}), frozenset({5, 6})}


def test_max_size_forces_balance() -> None:
    labels, _ = cluster(np.array([[1.0], [1.1], [1.2], [1.3], [1.4], [5.0]]), 2, 1)
    assert sorted(np.bincount(labels)) == [1, 5]
    labels, _ = cluster(np.array([[1.0], [1.1], [1.2], [1.3], [1.4], [5.0]]), 2, 1, max_size=3)
    assert np.bincount(labels).tolist() == [3, 3]


@pytest.mark.parametrize("seed", range(4))
def test_finds_the_optimum_that_enumeration_finds(seed: int) -> None:
    points = np.random.default_rng(seed).normal(3, 1, (9, 2))
    best = np.inf
    everyone = set(range(9))
    for first in itertools.combinations(range(1, 9), 2):
        rest = sorted(everyone - {0, *first})
        for second in itertools.combinations(rest[1:], 2):
            labels = np.full(9, 2)
            labels[[0, *first]] = 0
            labels[[rest[0], *second]] = 1
            best = min(best, sum_of_squares(points, labels))
    labels, _ = cluster(points, 3, 3)
    assert sum_of_squares(points, labels) == pytest.approx(best, rel=1e-5)


@given(
    rows=st.integers(1, 60),
    columns=st.integers(1, 12),
    t=st.integers(1, 12),
    min_size=st.integers(1, 8),
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 1000),
    whole_ratings=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_sizes_cover_and_determinism(
    rows: int, columns: int, t: int, min_size: int, metric: str, seed: int, whole_ratings: bool
) -> None:
    points = np.random.default_rng(seed).normal(3, 1.5, (rows, columns)).astype(np.float32)
    if whole_ratings:  # many ties and equal points
        points = np.round(points)
    if rows < t * min_size:
        with pytest.raises(ValueError, match=f"{rows} points cannot form t={t} clusters"):
            cluster(points, t, min_size, seed, metric=metric)
        return
    labels, centers = cluster(points, t, min_size, seed, metric=metric)
    sizes = np.bincount(labels, minlength=t)
    assert labels.shape == (rows,)
    assert len(sizes) == t
    assert sizes.min() >= min_size
    assert sizes.max() <= max(min_size, 2 * -(-rows // t))
    for c in range(t):
        np.testing.assert_allclose(centers[c], points[labels == c].mean(0, dtype=np.float64), atol=1e-5)
    again = cluster(points, t, min_size, seed, metric=metric)
    assert again[0].tobytes() == labels.tobytes()
    assert again[1].tobytes() == centers.tobytes()


@given(k=st.integers(2, 9), spare=st.integers(0, 8), t=st.integers(1, 6), seed=st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_groups_of_a_bin_stay_below_two_k(k: int, spare: int, t: int, seed: int) -> None:
    rows = t * k + spare % k
    points = np.random.default_rng(seed).normal(3, 1, (rows, 5))
    sizes = np.bincount(cluster(points, t, k, seed)[0], minlength=t)
    assert k <= sizes.min() <= sizes.max() <= 2 * k - 1


@pytest.mark.parametrize("metric", METRICS)
def test_identical_points(metric: str) -> None:
    labels, centers = cluster(np.full((23, 40), 3.5), 4, 5, metric=metric)
    assert np.bincount(labels, minlength=4).min() >= 5
    assert (centers == 3.5).all()


def test_one_cluster_and_a_cluster_per_point() -> None:
    labels, centers = cluster(LINE, 1, 6)
    assert not labels.any()
    assert centers.shape == (1, 1)
    labels, _ = cluster(LINE, 6, 1, max_size=1)
    assert sorted(labels.tolist()) == [0, 1, 2, 3, 4, 5]


def test_refusals_give_the_numbers() -> None:
    with pytest.raises(
        ValueError, match=r"6 points cannot form t=2 clusters of at least min_size=4: .* 8 points"
    ):
        cluster(LINE, 2, 4)
    with pytest.raises(ValueError, match=r"do not fit into t=2 .* max_size=2: max_size must be at least 3"):
        cluster(LINE, 2, 2, max_size=2)
    with pytest.raises(ValueError, match="unknown metric 'manhattan'"):
        cluster(LINE, 1, 2, metric="manhattan")
    with pytest.raises(ValueError, match=r"points must be a matrix, got shape \(6,\)"):
        cluster(LINE.ravel(), 2, 2)


def test_recovers_planted_groups() -> None:
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(30), 5)
    points = rng.uniform(1, 5, (30, 50))[truth] + rng.normal(0, 0.05, (150, 50))
    for metric in METRICS:
        labels, _ = cluster(points, 30, 5, metric=metric)
        assert groups_of(labels) == groups_of(truth), metric


@pytest.mark.parametrize("metric", METRICS)
def test_much_tighter_than_random_groups(metric: str) -> None:
    points = low_rank(120, 300)
    labels, centers = cluster(points, 24, 5, metric=metric)
    random = np.random.default_rng(1).permutation(np.arange(120) % 24).astype(np.int32)
    ours = total_distance(points, centers, labels, metric)
    others = total_distance(points, partition_search.group_means(points, random, 24), random, metric)
    assert ours < 0.7 * others


@pytest.mark.parametrize(("rows", "columns", "t"), [(3_200, 8, 40), (3_100, 60, 50)])
def test_more_points_than_can_be_paired(rows: int, columns: int, t: int) -> None:
    points = low_rank(rows, columns)
    least = rows // (2 * t)
    labels, _ = cluster(points, t, least, metric="weighted-squared")
    sizes = np.bincount(labels, minlength=t)
    assert sizes.min() >= least
    assert sizes.max() <= 2 * -(-rows // t)
    assert cluster(points, t, least, metric="weighted-squared")[0].tobytes() == labels.tobytes()
    free = np.unique(labels, return_counts=True)[1]
    assert free.sum() == rows
    assert sum_of_squares(points, labels) < 0.5 * sum_of_squares(points, np.arange(rows) % t)


def test_wide_points_are_sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sketch stands in for the metric where pairs would be costly; the result stays about as good."""
    points = low_rank(200, 500)
    exact = cluster(points, 20, 8, metric="weighted-squared")
    monkeypatch.setattr("tasks.kernels.bounded_tmeans._MOST_CELLS", 1)
    sketched = cluster(points, 20, 8, metric="weighted-squared")
    scores = [total_distance(points, c, y, "weighted-squared") for y, c in (exact, sketched)]
    assert scores[1] < 1.03 * scores[0]
    assert np.bincount(sketched[0]).min() >= 8


def test_exchange_cost_is_the_sum_of_squares_and_a_local_optimum() -> None:
    points = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    pairs = (distances(points, points, metric="euclidean", max_diff=1.0) ** 2 * 4).astype(np.float32)
    labels = (np.arange(40) % 7).astype(np.int32)
    before = sum_of_squares(points, labels)
    cost = partition_search.exchange_members(pairs, labels, 7, 4, 8, 50)
    after = sum_of_squares(points, labels)
    assert cost == pytest.approx(after, rel=1e-5)
    assert after < before
    for i, j in itertools.combinations(range(40), 2):
        swapped = labels.copy()
        swapped[[i, j]] = swapped[[j, i]]
        assert sum_of_squares(points, swapped) > after - 1e-3
    sizes = np.bincount(labels)
    for i, b in itertools.product(range(40), range(7)):
        if sizes[labels[i]] > 4 and sizes[b] < 8:
            moved = labels.copy()
            moved[i] = b
            assert sum_of_squares(points, moved) > after - 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_assignment_is_nearly_optimal(seed: int) -> None:
    """fill and reassign against the exact solution of the transport problem, groups of exactly 4."""
    costs = np.random.default_rng(seed).random((40, 10)).astype(np.float32)
    labels = partition_search.fill_groups(costs, 4, 4)
    partition_search.reassign(costs, labels, 4, 4, 50)
    rows, columns = linear_sum_assignment(np.repeat(costs, 4, axis=1))
    optimum = np.repeat(costs, 4, axis=1)[rows, columns].sum()
    assert np.bincount(labels).tolist() == [4] * 10
    assert costs[np.arange(40), labels].sum() <= 1.12 * optimum


def test_seeds_are_distinct_even_among_equal_points() -> None:
    points = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0)
    pairs = distances(points, points, metric="euclidean", max_diff=1.0)
    draws = np.random.default_rng(0).random((10, 3))
    assert sorted(partition_search.seed_from_pairs(pairs, 10, draws).tolist()) == list(range(10))
    assert sorted(partition_search.seed_from_points(points, 10, draws).tolist()) == list(range(10))
