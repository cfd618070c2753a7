"""Test tasks/kernels/als.py: half steps against float64, blocks against the whole, and the error on real data."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels import als

DATA = Path(os.environ.get("MURMUR_DATA", Path(__file__).parents[4] / "shared" / "data"))


def sparse_ratings(users: int, items: int, density: float, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    taken = rng.random((users, items)) < density
    values = rng.integers(1, 6, (users, items)).astype(np.float32)
    return sp.csr_array(np.where(taken, values, 0))


def reference(
    csr: sp.csr_array, features: np.ndarray, offsets: np.ndarray, regularization: float
) -> np.ndarray:
    """Solve the normal equations of each row in float64."""
    features = np.column_stack([features, np.ones(len(features))])
    result = np.zeros((csr.shape[0], features.shape[1]))
    for row in range(csr.shape[0]):
        part = slice(csr.indptr[row], csr.indptr[row + 1])
        rated = csr.indices[part]
        x = features[rated].astype(np.float64)
        ridge = np.full(features.shape[1], regularization * (len(rated) + als.PRIOR))
        ridge[-1] = regularization * als.BIAS_PRIOR
        right = x.T @ (csr.data[part] - offsets[rated].astype(np.float64))
        result[row] = np.linalg.solve(x.T @ x + np.diag(ridge), right)
    return result


def problem(rank: int, users: int = 30, items: int = 20, density: float = 0.4, seed: int = 0):
    csr = sparse_ratings(users, items, density, seed)
    rng = np.random.default_rng(seed + 1)
    features = rng.normal(0, 0.5, (items, rank)).astype(np.float32)
    return csr, features, rng.normal(3.5, 0.3, items).astype(np.float32)


def test_worked_bias() -> None:
    """Features of 0 leave only the bias: Σ residual / (n + λ·BIAS_PRIOR), here 3 / (2 + 4) and 0."""
    features = np.zeros((3, 1), np.float32)
    offsets = np.full(3, 3.0, np.float32)
    indptr, indices = np.array([0, 2, 2, 3]), np.array([0, 2, 1])
    values = np.array([5, 4, 3], np.float32)
    solved = als.half_step(indptr, indices, values, features, offsets, 0.04)
    assert solved.dtype == np.float32
    np.testing.assert_allclose(solved, [[0, 0.5], [0, 0], [0, 0]], rtol=1e-6)


def test_worked_factor() -> None:
    """Ratings 4 and 2 of factors 2 and −2, offset 3: the bias sees 1 − 1 = 0, the factor 2·1 + (−2)·(−1) = 4."""
    features = np.array([[2], [-2]], np.float32)
    offsets = np.array([3, 3], np.float32)
    solved = als.half_step(
        np.array([0, 2]), np.array([0, 1]), np.array([4, 2], np.float32), features, offsets, 0.5
    )
    assert solved[0, 0] == pytest.approx(4 / (8 + 0.5 * (2 + als.PRIOR)), rel=1e-6)
    assert solved[0, 1] == 0


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 7, 16, 33])
def test_half_step_matches_float64(rank: int) -> None:
    csr, features, offsets = problem(rank, users=21, items=600, density=0.6)  # more ratings than one gather
    solved = als.half_step(csr.indptr, csr.indices, csr.data, features, offsets, 0.04)
    np.testing.assert_allclose(solved, reference(csr, features, offsets, 0.04), atol=2e-5)


@pytest.mark.parametrize("shuffled", [False, True])
def test_more_columns_than_a_tile(shuffled: bool) -> None:
    """Item half steps at scale: thousands of columns in several tiles, more rows than a group, sorted or not."""
    rng = np.random.default_rng(0)
    columns, rows = 2 * als._TILE + 77, als._GROUP + 9
    csr = sp.random_array((rows, columns), density=0.002, rng=rng, format="csr", dtype=np.float32)
    csr.data[:] = rng.integers(1, 6, csr.nnz)
    csr.sort_indices()
    features = rng.normal(0, 0.5, (columns, 6)).astype(np.float32)
    offsets = rng.normal(3.5, 0.3, columns).astype(np.float32)
    expected = reference(csr, features, offsets, 0.04)
    if shuffled:
        for row in range(rows):
            part = slice(csr.indptr[row], csr.indptr[row + 1])
            order = rng.permutation(part.stop - part.start)
            csr.indices[part], csr.data[part] = csr.indices[part][order], csr.data[part][order]
    whole = als.half_step(csr.indptr, csr.indices, csr.data, features, offsets, 0.04)
    np.testing.assert_allclose(whole, expected, atol=2e-5)
    last = als.half_step(
        csr.indptr[500:] - csr.indptr[500],
        csr.indices[csr.indptr[500] :],
        csr.data[csr.indptr[500] :],
        features,
        offsets,
        0.04,
    )
    assert last.tobytes() == whole[500:].tobytes()


def test_rows_without_ratings_give_zeros() -> None:
    _, features, offsets = problem(4)
    empty = als.half_step(
        np.zeros(12, np.int64), np.array([], np.int32), np.array([], np.float32), features, offsets, 0.1
    )
    assert empty.shape == (11, 5)
    assert not empty.any()
    assert als.half_step(
        np.array([0]), np.array([], np.int32), np.array([], np.float32), features, offsets, 0.1
    ).shape == (0, 5)


@given(
    seed=st.integers(0, 50),
    rank=st.integers(1, 9),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_blocks_give_the_same_bytes_as_the_whole(seed: int, rank: int, cuts: list[int]) -> None:
    csr, features, offsets = problem(rank, seed=seed, density=0.3)
    whole = als.half_step(csr.indptr, csr.indices, csr.data, features, offsets, 0.05)
    edges = [0, *sorted(cuts), csr.shape[0]]
    blocks = []
    for first, last in itertools.pairwise(edges):
        part = csr[first:last]
        blocks.append(als.half_step(part.indptr, part.indices, part.data, features, offsets, 0.05))
    assert np.vstack(blocks).tobytes() == whole.tobytes()


def test_out_is_filled_and_returned() -> None:
    csr, features, offsets = problem(3)
    out = np.full((30, 4), np.nan, np.float32)
    assert als.half_step(csr.indptr, csr.indices, csr.data, features, offsets, 0.05, out=out) is out
    assert (
        out.tobytes() == als.half_step(csr.indptr, csr.indices, csr.data, features, offsets, 0.05).tobytes()
    )


def test_refusals_name_what_is_wrong() -> None:
    csr, features, offsets = problem(3)
    arrays = (csr.indptr, csr.indices, csr.data)
    with pytest.raises(ValueError, match="indptr must run from 0 to the number of ratings"):
        als.half_step(csr.indptr[3:], csr.indices, csr.data, features, offsets, 0.1)
    with pytest.raises(ValueError, match="one offset per feature row is needed, got 19 for 20 rows"):
        als.half_step(*arrays, features, offsets[1:], 0.1)
    with pytest.raises(ValueError, match="regularization must be positive, got 0"):
        als.half_step(*arrays, features, offsets, 0.0)
    with pytest.raises(ValueError, match=r"indices must lie in 0\.\.9"):
        als.half_step(*arrays, features[:10], offsets[:10], 0.1)
    with pytest.raises(ValueError, match=r"out must be float32 of shape \(30, 4\)"):
        als.half_step(*arrays, features, offsets, 0.1, out=np.empty((30, 3), np.float32))
    with pytest.raises(ValueError, match="fit_items must be 20 booleans"):
        als.keep_items(csr, np.ones(19, bool))


def test_factorize_has_the_documented_shape_and_is_deterministic() -> None:
    csr = sparse_ratings(40, 25, 0.4)
    a, b, mean = als.factorize(csr, sp.csc_array(csr), rank=3, rng=np.random.default_rng(7))
    assert a.shape == (40, 5)
    assert b.shape == (25, 5)
    assert a.dtype == b.dtype == np.float32
    assert (a[:, 4] == 1).all()
    assert (b[:, 3] == 1).all()
    assert mean == pytest.approx(csr.data.mean())
    again = als.factorize(csr, rank=3, rng=np.random.default_rng(7))
    assert again[0].tobytes() == a.tobytes()
    assert again[1].tobytes() == b.tobytes()


def test_each_iteration_lowers_the_objective() -> None:
    csr = sparse_ratings(60, 40, 0.5)
    coo = csr.tocoo()

    def objective(iterations: int) -> float:
        a, b, mean = (
            np.asarray(v, np.float64)
            for v in als.factorize(
                csr, rank=4, regularization=0.02, iterations=iterations, rng=np.random.default_rng(1)
            )
        )
        errors = coo.data - mean - np.einsum("rf,rf->r", a[coo.row], b[coo.col])
        by_user, by_item = np.bincount(coo.row, minlength=60), np.bincount(coo.col, minlength=40)
        ridge = (a[:, :4] ** 2).sum(1) @ (by_user + als.PRIOR) + (b[:, :4] ** 2).sum(1) @ (
            by_item + als.PRIOR
        )
        biases = als.BIAS_PRIOR * ((a[:, 4] ** 2).sum() + (b[:, 5] ** 2).sum())
        return float((errors**2).sum() + 0.02 * (ridge + biases))

    steps = [objective(n) for n in (1, 2, 4, 8)]
    assert steps == sorted(steps, reverse=True)


def test_items_outside_the_fit_leave_no_trace() -> None:
    csr = sparse_ratings(40, 25, 0.4)
    fit = np.ones(25, bool)
    fit[[3, 11]] = False
    a, b, mean = als.factorize(csr, rank=3, rng=np.random.default_rng(0), fit_items=fit)
    np.testing.assert_array_equal(b[[3, 11]], [[0, 0, 0, 1, 0]] * 2)

    changed = csr.copy()
    changed.data[np.isin(changed.indices, [3, 11])] = 1.0  # other ratings of the left-out items
    others = als.factorize(changed, rank=3, rng=np.random.default_rng(0), fit_items=fit)
    assert others[0].tobytes() == a.tobytes()
    assert others[1].tobytes() == b.tobytes()
    assert others[2] == mean


def test_nothing_to_fit() -> None:
    a, b, mean = als.factorize(
        sparse_ratings(5, 4, 0.9), rank=2, rng=np.random.default_rng(0), fit_items=np.zeros(4, bool)
    )
    assert mean == 0.0
    assert (a == [0, 0, 0, 1]).all()
    assert (b == [0, 0, 1, 0]).all()


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    path = {"ml-100k": DATA / "ml-100k" / "u.data", "ml-1m": DATA / "ml-1m" / "ratings.dat"}[name]
    if not path.exists():
        pytest.skip(f"{path} is absent; set MURMUR_DATA to the directory of the data sets")
    separated = path.read_bytes().replace(b"::", b"\t")
    table = np.array(separated.split(), np.int64).reshape(-1, 4)
    users = np.unique(table[:, 0], return_inverse=True)[1]
    items = np.unique(table[:, 1], return_inverse=True)[1]
    return users, items, table[:, 2].astype(np.float32)


@pytest.mark.data
@pytest.mark.parametrize(("name", "bar"), [("ml-100k", 0.912), ("ml-1m", 0.856)])
def test_held_out_error_on_real_data(name: str, bar: float) -> None:
    users, items, ratings = load(name)
    held = np.zeros(len(ratings), bool)
    held[np.random.default_rng(0).permutation(len(ratings))[: len(ratings) // 10]] = True
    csr = sp.csr_array(
        (ratings[~held], (users[~held], items[~held])), shape=(users.max() + 1, items.max() + 1)
    )
    a, b, mean = als.factorize(csr, rng=np.random.default_rng(0))
    predicted = np.clip(mean + np.einsum("rf,rf->r", a[users[held]], b[items[held]]), 1, 5)
    assert np.sqrt(np.mean((predicted - ratings[held]) ** 2)) <= bar
