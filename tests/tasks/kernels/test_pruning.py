"""Test that pruning.py finds the same nearest centre as comparing all of them, and its rating_vectors.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels import pruning, rating_vectors
from tasks.kernels.als import factorize
from tasks.kernels.bounded_tmeans import _metric_pairs, bounded_tmeans
from tasks.kernels.metrics import METRICS, distances, distances_of_pairs, nearest
from tasks.kernels.pruning import find_nearest, lower_bounds
from tasks.kernels.rating_vectors import (
    DenseVectors,
    LowRankVectors,
    RatingVectors,
    distances_between,
    segment_items,
    squared_pair_distances,
)

BOUNDED = [metric for metric in METRICS if not metric.startswith("closeness")]


def low_rank(
    users: int, items: int, rank: int = 5, seed: int = 0, size: float = 0.4, count: int = 8
) -> LowRankVectors:
    rng = np.random.default_rng(seed)
    factors = (size * rng.normal(size=(users, rank))).astype(np.float32)
    columns = rng.normal(size=(items, rank)).astype(np.float32)
    return LowRankVectors(factors, segment_items(columns, factors, count), columns, 3.5)


def dense(points: RatingVectors, noise: float = 0.3, seed: int = 1) -> DenseVectors:
    rows = points.rows(slice(None))
    return DenseVectors(
        rows + noise * np.random.default_rng(seed).normal(size=rows.shape).astype(np.float32), points.segments
    )


def brute(x: RatingVectors, y: RatingVectors, metric: str) -> np.ndarray:
    return nearest(x.rows(slice(None)), y.rows(slice(None)), metric=metric, max_diff=4.0)[0]


def test_a_bound_worked_by_hand() -> None:
    """Four items in two segments; x − y = 1, 3, −2, 2 over a scale of 4: L = 2/4, E = 18/64, segments see 4 and 0."""
    segments = np.array([0, 0, 1, 1], np.int32)
    x = DenseVectors(np.array([[4.0, 5.0, 1.0, 4.0]], np.float32), segments)
    y = DenseVectors(np.array([[3.0, 2.0, 3.0, 2.0]], np.float32), segments)
    coarse, squares = 4 / 4 / 4, (1 + 9 + 4 + 4) / 4 / 16
    expected = {
        "weighted-squared": 2 * coarse - squares,
        "weighted": coarse - squares / 4,
        "euclidean": np.sqrt(squares),
    }
    for metric, bound in expected.items():
        found = lower_bounds(x, y, slice(None), metric=metric, max_diff=4.0)
        assert found[0, 0] == pytest.approx(bound, abs=1e-4)
        assert found[0, 0] <= distances(x.array, y.array, metric=metric, max_diff=4.0)[0, 0]


@given(
    users=st.integers(1, 40),
    centers=st.integers(1, 20),
    items=st.integers(1, 70),
    rank=st.integers(1, 6),
    size=st.sampled_from(
        [1e-4, 0.05, 0.4, 3.0]
    ),  # from all alike to far beyond the scale, where the cap binds
    count=st.sampled_from([1, 4, 64]),
    kept=st.booleans(),
    offset=st.sampled_from([0.0, 100.0, 1000.0]),  # a scale far from zero
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=300, deadline=None)
def test_equal_to_brute_force_and_never_above_a_distance(
    users, centers, items, rank, size, count, kept, offset, metric, seed
) -> None:
    x = replace(low_rank(users, items, rank, seed, size, count), mean=3.5 + offset)
    labels = np.random.default_rng(seed).integers(0, centers, users).astype(np.int32)
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    points: RatingVectors = dense(x) if kept else x
    y = points.group_means(labels, int(labels.max()) + 1)
    index, distance = find_nearest(points, y, metric=metric, max_diff=4.0)
    all_of_them = distances(points.rows(slice(None)), y.rows(slice(None)), metric=metric, max_diff=4.0)
    assert index.tolist() == all_of_them.argmin(axis=1).tolist()
    assert distance.tolist() == all_of_them.min(axis=1).tolist()
    bounds = lower_bounds(points, y, slice(None), metric=metric, max_diff=4.0)
    if metric in BOUNDED:
        assert (bounds <= all_of_them).all()
    else:
        assert bounds is None


@pytest.mark.parametrize("metric", METRICS)
def test_ties_go_to_the_lowest_index(metric: str) -> None:
    x = low_rank(30, 50)
    twice = LowRankVectors(np.vstack([x.array[:6]] * 3), x.segments, x.items, x.mean)
    index, _ = find_nearest(x, twice, metric=metric, max_diff=4.0)
    assert index.max() < 6
    assert index[:6].tolist() == list(range(6))


def test_most_centres_are_never_compared(monkeypatch) -> None:
    x = low_rank(2_000, 600, rank=8, size=0.25, count=128)
    y = LowRankVectors(x.array[:300], x.segments, x.items, x.mean)
    compared = []

    def count(rows, centers, indptr, columns, **options):
        compared.append(len(columns))
        return distances_of_pairs(rows, centers, indptr, columns, **options)

    monkeypatch.setattr(rating_vectors, "distances_of_pairs", count)
    find_nearest(x, y, metric="weighted-squared", max_diff=4.0)
    assert 4 * 2_000 <= sum(compared) < 0.2 * 2_000 * 300


def test_segments_are_even_and_hold_similar_items() -> None:
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)[rng.permutation(100)]
    segments = segment_items(kinds, rng.normal(size=(50, 4)).astype(np.float32), 4)
    assert np.bincount(segments).tolist() == [25, 25, 25, 25]
    assert all(len(np.unique(kinds[segments == s], axis=0)) == 1 for s in range(4))


def test_factor_space_keeps_row_distances() -> None:
    x = low_rank(40, 90)
    rows = DenseVectors(x.rows(slice(None)))
    expected = ((rows.array[:, None] - rows.array[None]).astype(np.float64) ** 2).sum(axis=2)
    rng = np.random.default_rng(0)
    for squared in (
        x.squared_pair_distances(),
        rows.squared_pair_distances(),
        squared_pair_distances(x.embedding(rng)),
        squared_pair_distances(rows.embedding(rng)),  # five factors fit into the sketch
        x.squared_distances_to(x, slice(None))[0],
        rows.squared_distances_to(rows, slice(None))[0],
    ):
        np.testing.assert_allclose(squared, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        x.group_means(np.zeros(40, np.int32), 1).rows(slice(None))[0], rows.array.mean(0), rtol=1e-5
    )
    np.testing.assert_allclose(
        x.segment_sums(slice(3, 9)) + 3.5 / 90 * np.bincount(x.segments),
        DenseVectors(rows.array, x.segments).segment_sums(slice(3, 9)),
        rtol=1e-5,
    )


@pytest.mark.parametrize(("items", "count", "made"), [(1, 128, 1), (3, 128, 3), (100, 16, 16), (5, 2, 2)])
def test_there_are_never_more_segments_than_items(items: int, count: int, made: int) -> None:
    rng = np.random.default_rng(0)
    segments = segment_items(rng.normal(size=(items, 3)).astype(np.float32), rng.normal(size=(9, 3)), count)
    assert len(np.unique(segments)) == segments.max() + 1 == made


def test_without_segments_all_centres_are_compared() -> None:
    x = DenseVectors(low_rank(20, 30).rows(slice(None)))
    assert lower_bounds(x, x, slice(None), metric="weighted", max_diff=4.0) is None
    assert find_nearest(x, x, metric="weighted", max_diff=4.0)[0].tolist() == list(range(20))
    with pytest.raises(ValueError, match="made without"):
        x.segment_sums(slice(None))


@pytest.mark.data
@pytest.mark.parametrize("kept", [False, True])
def test_nearest_centres_of_movielens_1m_equal_brute_force(real_data, kept: bool) -> None:
    """Every user, all five metrics, √m centres and many more."""
    ratings = _movielens(real_data("ml-1m"))
    users, items, mean = factorize(ratings, rng=np.random.default_rng(0))
    x: RatingVectors = LowRankVectors(users, segment_items(items, users, pruning.SEGMENTS), items, mean)
    if kept:
        rows = x.rows(slice(None))
        rows[ratings.nonzero()] = ratings.data
        x = DenseVectors(rows, x.segments)
    rng = np.random.default_rng(1)
    for centers in (77, 400):
        seeds = rng.choice(len(users), centers, replace=False)
        y = x.group_means(brute(x, type(x)(x.array[seeds], *_rest(x)), "euclidean"), centers)
        for metric in METRICS:
            assert np.array_equal(find_nearest(x, y, metric=metric, max_diff=4.0)[0], brute(x, y, metric))


def _rest(points: RatingVectors) -> tuple:
    if isinstance(points, LowRankVectors):
        return points.segments, points.items, points.mean
    return (points.segments,)


def _movielens(directory):
    import pandas as pd
    import scipy.sparse as sp

    table = pd.read_csv(directory / "ratings.dat", sep=":", header=None, usecols=[0, 2, 4], dtype=np.int32)
    user, item = (np.unique(table[column], return_inverse=True)[1] for column in (0, 2))
    return sp.csr_array((table[4].to_numpy(np.float32), (user, item)))


def with_level_items(users: int, items: int, level_items: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return factors of users and items as kernels/als.py makes them; some items show a level only."""
    rng = np.random.default_rng(seed)
    own = 0.5 * rng.normal(size=(users, 5))
    factors = np.column_stack([own, np.ones(users)]).astype(np.float32)
    traits = rng.normal(size=(items, 4))
    traits[rng.choice(items, level_items, replace=False)] = 0
    columns = np.column_stack([traits, np.ones(items), rng.normal(size=items)]).astype(np.float32)
    return factors, segment_items(columns, factors, 8), columns


@pytest.mark.parametrize("metric", METRICS)
def test_items_that_show_a_level_only_need_not_be_multiplied_out(metric: str) -> None:
    """Distances, bounds, nearest centres and clusters are those of all items."""
    factors, segments, columns = with_level_items(90, 60, 45)
    whole = LowRankVectors(factors, segments, columns, 3.5)
    assert LowRankVectors.without_levels(factors, segments, columns, 3.5, 46).repeats == 0
    few = LowRankVectors.without_levels(factors, segments, columns, 3.5, 45)
    assert (few.width, few.cells, whole.width) == (15, 60, 60)
    every = slice(None)
    measure = {"metric": metric, "max_diff": 4.0}
    expected = distances(whole.rows(every), whole.rows(every), **measure)
    # A difference of exactly the threshold of `closeness` may be rounded to either side.
    found = distances_between(few, few.rows(every), every, few, few.rows(every), **measure)
    assert np.allclose(found, expected, atol=2e-6)
    assert np.allclose(_metric_pairs(few, metric, 4.0), expected, atol=2e-6)
    assert np.allclose(few.squared_pair_distances(), whole.squared_pair_distances(), rtol=1e-4, atol=1e-3)
    labels = (np.arange(90) % 9).astype(np.int32)
    centers, all_centers = few.group_means(labels, 9), whole.group_means(labels, 9)
    assert np.allclose(DenseVectors.of(few).group_means(labels, 9).levels(every), centers.levels(every))
    index, distance = find_nearest(few, centers, **measure)
    assert np.array_equal(index, find_nearest(whole, all_centers, **measure)[0])
    assert np.allclose(distance, find_nearest(whole, all_centers, **measure)[1], atol=2e-6)
    bounds = lower_bounds(few, centers, every, **measure)
    if bounds is not None:
        assert (bounds <= distances(whole.rows(every), all_centers.rows(every), **measure)).all()
    clusters = [
        bounded_tmeans(points, t=9, min_size=8, iterations=5, rng=np.random.default_rng(3), **measure)[0]
        for points in (few, whole)
    ]
    assert np.array_equal(*clusters)


def test_a_catalogue_of_levels_alone_has_no_columns() -> None:
    factors, segments, columns = with_level_items(30, 20, 20)
    few = LowRankVectors.without_levels(factors, segments, columns, 3.5, 1)
    assert few.width == 0
    index, _ = find_nearest(few, few, metric="weighted-squared", max_diff=4.0)
    assert index.tolist() == list(range(30))
