"""Test tasks/kernels/metrics.py: the five distances against hand-worked cases and a float64 reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit

from tasks.kernels import metrics
from tasks.kernels.metrics import METRICS, distances, nearest

MAX_DIFF = 4.0


def reference(x: np.ndarray, y: np.ndarray, metric: str, max_diff: float = MAX_DIFF) -> np.ndarray:
    """Evaluate the formulas literally in float64."""
    apart = np.abs(x.astype(np.float64)[:, None, :] - y.astype(np.float64)[None, :, :])
    d = np.minimum(1.0, apart / max_diff)
    if metric == "weighted-squared":
        return 1 - np.mean((1 - d) ** 2, axis=2)
    if metric == "weighted":
        return np.mean(d, axis=2)
    if metric == "euclidean":
        return np.sqrt(np.mean((apart / max_diff) ** 2, axis=2))
    return np.mean(apart > float(metric.removeprefix("closeness-")), axis=2)


def ratings(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(3.5, 1.2, (rows, columns)).astype(np.float32)


# Two users, four items; |x − y| = 0, 1, 2, 4 so d = 0, 1/4, 1/2, 1.
X4 = np.array([[3.0, 4.0, 1.0, 1.0]])
Y4 = np.array([[3.0, 3.0, 3.0, 5.0]])


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("weighted-squared", (0 + 7 / 16 + 3 / 4 + 1) / 4),
        ("weighted", (0 + 1 / 4 + 1 / 2 + 1) / 4),
        ("closeness-0.5", 3 / 4),
        ("closeness-1.0", 2 / 4),  # exactly one apart is not further than one
        ("euclidean", np.sqrt((0 + 1 / 16 + 1 / 4 + 1) / 4)),
    ],
)
def test_worked_example(metric: str, expected: float) -> None:
    assert distances(X4, Y4, metric=metric, max_diff=4.0)[0, 0] == np.float32(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_opposite_users_are_at_distance_one(metric: str) -> None:
    low, high = np.full((1, 6), 1.0), np.full((1, 6), 5.0)
    assert distances(low, high, metric=metric, max_diff=4.0)[0, 0] == 1.0


@pytest.mark.parametrize(
    ("metric", "expected"), [("weighted-squared", 1.0), ("weighted", 1.0), ("euclidean", 1.5)]
)
def test_only_euclidean_is_not_capped_off_the_scale(metric: str, expected: float) -> None:
    assert distances([[0.0]], [[6.0]], metric=metric, max_diff=4.0)[0, 0] == expected


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("columns", [1, 7, 33, 1024, 1025, 3706])
def test_matches_the_float64_reference(metric: str, columns: int) -> None:
    x, y = ratings(9, columns), ratings(7, columns, seed=1)
    expected = reference(x, y, metric)
    assert np.abs(distances(x, y, metric=metric, max_diff=MAX_DIFF) - expected).max() < 1e-5


def test_rounding_stays_small_at_netflix_width() -> None:
    x, y = ratings(3, 17_770), ratings(2, 17_770, seed=1)
    for metric in METRICS:
        error = np.abs(distances(x, y, metric=metric, max_diff=MAX_DIFF) - reference(x, y, metric)).max()
        assert error < 1e-5, metric


@pytest.mark.parametrize("metric", METRICS)
def test_an_entry_does_not_depend_on_its_block(metric: str) -> None:
    x, y = ratings(70, 130), ratings(11, 130, seed=1)
    whole = distances(x, y, metric=metric, max_diff=MAX_DIFF)
    for rows, others in [
        (slice(0, 1), slice(0, 1)),
        (slice(3, 68), slice(2, 9)),
        (slice(64, 70), slice(5, 11)),
    ]:
        part = distances(x[rows], y[others], metric=metric, max_diff=MAX_DIFF)
        assert part.tobytes() == whole[rows, others].tobytes()


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_is_the_argmin_of_distances(metric: str) -> None:
    x, y = ratings(130, 40), ratings(13, 40, seed=1)
    whole = distances(x, y, metric=metric, max_diff=MAX_DIFF)
    index, distance = nearest(x, y, metric=metric, max_diff=MAX_DIFF)
    assert index.dtype == np.int32
    assert (index == whole.argmin(axis=1)).all()
    assert (distance == whole.min(axis=1)).all()


@pytest.mark.parametrize("metric", METRICS)
def test_ties_go_to_the_lowest_index(metric: str) -> None:
    y = np.array([[5.0, 5.0], [2.0, 2.0], [2.0, 2.0], [1.0, 3.0], [2.0, 2.0]])
    index, distance = nearest([[2.0, 2.0]], y, metric=metric, max_diff=4.0)
    assert (index[0], distance[0]) == (1, 0.0)


def test_shapes_at_the_edges() -> None:
    assert distances(np.empty((0, 3)), np.ones((2, 3)), metric="weighted", max_diff=4.0).shape == (0, 2)
    assert distances(np.ones((2, 3)), np.empty((0, 3)), metric="weighted", max_diff=4.0).shape == (2, 0)
    assert distances(np.ones((1, 0)), np.ones((1, 0)), metric="euclidean", max_diff=4.0)[0, 0] == 0.0
    strided = ratings(6, 40)[::2, ::3]
    assert np.diag(distances(strided, strided, metric="weighted", max_diff=4.0)).max() == 0.0


def test_refusals_name_what_is_wrong() -> None:
    with pytest.raises(
        ValueError, match=r"unknown metric 'cosine'; choose one of weighted-squared, weighted"
    ):
        distances(X4, Y4, metric="cosine", max_diff=4.0)
    with pytest.raises(ValueError, match="max_diff must be a positive number, got 0"):
        distances(X4, Y4, metric="weighted", max_diff=0.0)
    with pytest.raises(ValueError, match=r"equal width, got shapes \(1, 4\) and \(1, 3\)"):
        distances(X4, Y4[:, :3], metric="weighted", max_diff=4.0)
    with pytest.raises(ValueError, match="at least one row in Y"):
        nearest(X4, np.empty((0, 4)), metric="weighted", max_diff=4.0)


vectors = arrays(
    np.float32,
    st.tuples(st.just(3), st.integers(1, 40)),
    elements=st.floats(-2, 8, width=32),
)


@pytest.mark.parametrize("metric", METRICS)
@given(points=vectors)
@settings(max_examples=60, deadline=None)
def test_zero_for_equal_symmetric_and_equal_to_the_reference(metric: str, points: np.ndarray) -> None:
    result = distances(points, points, metric=metric, max_diff=MAX_DIFF)
    assert (np.diag(result) == 0).all()
    assert (result == result.T).all()
    assert (result >= 0).all()
    if not metric.startswith("closeness"):  # float32 subtraction may fall on the other side of the threshold
        assert np.abs(result - reference(points, points, metric)).max() < 1e-5


@pytest.mark.parametrize("metric", ["weighted-squared", "weighted", "euclidean"])
@given(points=vectors)
@settings(max_examples=100, deadline=None)
def test_triangle_inequality(metric: str, points: np.ndarray) -> None:
    d = distances(points, points, metric=metric, max_diff=MAX_DIFF).astype(np.float64)
    assert d[0, 2] <= d[0, 1] + d[1, 2] + 1e-5


@given(points=vectors)
@settings(max_examples=100, deadline=None)
def test_euclidean_bounds_the_papers_metric(points: np.ndarray) -> None:
    """E ≤ D ≤ 2√E − E with E = mean(d²), on the scale, where the cap does not act."""
    points = np.clip(points, 1.0, 5.0)
    root = distances(points, points, metric="euclidean", max_diff=MAX_DIFF).astype(np.float64)
    d = distances(points, points, metric="weighted-squared", max_diff=MAX_DIFF)
    assert (root**2 <= d + 1e-5).all()
    assert (d <= 2 * root - root**2 + 1e-5).all()


def test_inner_loops_are_compiled_to_packed_instructions() -> None:
    fresh = njit(nogil=True, fastmath=True)(
        metrics._sum4.py_func
    )  # what comes from the cache has no assembly
    row = np.ones(16, np.float32)
    fresh(row, row, row, row, row, 0, np.float32(4.0))
    assembly = "".join(fresh.inspect_asm().values())
    if "ymm" not in assembly and "zmm" not in assembly:
        pytest.skip("this CPU has no 256-bit vectors")
    assert "vminps" in assembly
