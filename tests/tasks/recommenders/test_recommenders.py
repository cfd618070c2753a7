"""Test recommenders by hand, and their invariants: users who share a row all count, nothing is random."""

from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.als import half_step
from tasks.recommenders import als, bias, ease, item_knn, popularity, user_knn
from tasks.recommenders._cells import gram, keep_largest, mask_of, pick

NAMES = ("popularity", "bias", "als", "item_knn", "user_knn", "ease")
# Four people, four items; 0: not rated.
RATED = np.array([[5, 4, 0, 0], [4, 5, 1, 0], [1, 0, 5, 4], [0, 1, 4, 5]], np.float32)


def sparse(values: np.ndarray) -> sp.csr_array:
    matrix = sp.csr_array(values)
    matrix.sort_indices()
    return matrix


def small_world(seed: int, dense: bool) -> tuple[np.ndarray | sp.csr_array, np.ndarray]:
    """Generate rows whose values never tie, and how many users share each."""
    rng = np.random.default_rng(seed)
    rows, items = int(rng.integers(4, 9)), int(rng.integers(3, 8))
    values = (rng.standard_normal((rows, 2)) @ rng.standard_normal((2, items)) + 3).astype(np.float32)
    values += rng.random((rows, items)).astype(np.float32)
    weights = rng.integers(1, 5, rows)
    if dense:
        return values, weights
    known = rng.random((rows, items)) < 0.6
    known[:, 0] = True
    return sparse(np.where(known, values, 0)), weights


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dense", [False, True], ids=["listed", "every item"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_weighted_rows_equal_repeated_rows(name, dense, seed):
    train, weights = small_world(seed, dense)
    fit = import_module(f"tasks.recommenders.{name}").fit
    # Co-occurrence often ties, and then the nearest neighbours are not determined; values here never tie.
    few = {"neighbours": 3 if dense else 99} if name in ("user_knn", "item_knn") else {}
    place = np.repeat(np.arange(train.shape[0]), weights)
    shared, repeated = fit(train, weights, **few), fit(train[place], **few)
    first = np.searchsorted(place, np.arange(train.shape[0]))
    users = np.arange(train.shape[0])
    row, item = (index.ravel() for index in np.indices(train.shape))
    assert shared.predict(row, item) == pytest.approx(repeated.predict(first[row], item), abs=2e-3)
    assert shared.rows(users) == pytest.approx(repeated.rows(first), abs=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_deterministic_and_finite_without_ratings(name):
    fit = import_module(f"tasks.recommenders.{name}").fit
    train = sparse(np.vstack([RATED, np.zeros((1, 4), np.float32)]))  # one who rated nothing, below
    one, other = fit(train), fit(train)
    users = np.arange(5)
    assert np.array_equal(one.rows(users), other.rows(users))
    assert one.rows(users).shape == (5, 4)
    assert np.isfinite(one.rows(users)).all()
    assert np.isfinite(one.predict(np.full(4, 4), np.arange(4))).all()


@pytest.mark.parametrize("name", NAMES[2:])  # there are tastes, but no levels
def test_tastes_beat_the_item_means(name, taste_matrix):
    matrix = taste_matrix(users=150, items=60)
    row = np.repeat(np.arange(150), np.diff(matrix.indptr))
    aside = np.random.default_rng(5).random(matrix.nnz) < 0.1
    train = sp.csr_array(
        (matrix.data[~aside], (row[~aside], matrix.indices[~aside])), shape=matrix.shape, dtype=np.float32
    )
    train.sort_indices()
    cells, truth = (row[aside], matrix.indices[aside]), matrix.data[aside]
    plain, found = (
        np.mean((import_module(f"tasks.recommenders.{one}").fit(train).predict(*cells) - truth) ** 2)
        for one in ("popularity", name)
    )
    assert found < plain


def test_popularity_by_hand():
    model = popularity.fit(sparse(RATED), shrinkage=0.0)
    assert model.means == pytest.approx([10 / 3, 10 / 3, 10 / 3, 4.5])
    # Three people have each of the first three, two the last.
    assert model.rows(np.array([0]))[0].argmin() == 3
    shared = popularity.fit(sparse(RATED), np.array([1, 1, 1, 3]), shrinkage=0.0)
    assert shared.means == pytest.approx([10 / 3, 12 / 5, 18 / 5, 19 / 4])
    assert shared.rows(np.array([0]))[0].tolist() == [0, 2, 3, 1]  # 3, 5, 5 (a better mean), 4 people
    everything = popularity.fit(np.array([[1, 3, 2], [1, 5, 2]], np.float32))
    assert everything.rows(np.array([1]))[0].tolist() == [0, 2, 1]


def test_biases_by_hand():
    """Two people, two items, nothing missing: the exact additive fit without doubt."""
    model = bias.fit(np.array([[5.0, 3.0], [3.0, 1.0]], np.float32), shrinkage=0.0)
    assert (model.mean, model.users.tolist(), model.items.tolist()) == (3, [1, -1], [1, -1])
    assert model.rows(np.array([1])).tolist() == [[3, 1]]
    doubtful = bias.fit(np.array([[5.0, 3.0], [3.0, 1.0]], np.float32), shrinkage=2.0, iterations=1)
    assert doubtful.items.tolist() == [0.5, -0.5]  # (8 − 2·3) / (2 + 2)
    assert doubtful.users.tolist() == [0.5, -0.5]


def test_a_stored_zero_is_a_value():
    z = sp.csr_array((np.array([0.0, 2.0, 0.0, -2.0], np.float32), [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    assert bias.fit(z, shrinkage=0.0).mean == 0
    assert popularity.fit(z, shrinkage=0.0).means.tolist() == [0, 0]
    mask = mask_of(z)
    assert mask is not None
    assert mask.toarray().tolist() == [[1, 1], [1, 1]]


def test_ease_is_the_closed_form():
    train = sparse(RATED)
    model = ease.fit(train, ridge=0.5)
    had = (RATED > 0).astype(float)
    g = had.T @ had
    p = np.linalg.inv(g + 0.5 * np.diag(g).mean() * np.eye(4))
    b = np.eye(4) - p @ np.diag(1 / np.diag(p))
    assert model.rows(np.arange(4)) == pytest.approx(had @ b, abs=1e-5)
    assert np.diag(model.company).tolist() == [0, 0, 0, 0]


def test_item_neighbours_by_hand():
    model = item_knn.fit(sparse(RATED), neighbours=1)
    # Had together: items 0 and 1 by two of three each, so 2/3; 2 and 3 by two of three and two: 2/√6 = 0.82.
    # 1 and 2 are also together twice (2/3), 0 and 3 once.
    company = model.company
    assert company[3, 2] == pytest.approx(2 / np.sqrt(6))
    assert company[2, 3] == pytest.approx(2 / np.sqrt(6))
    assert (company > 0).sum(axis=0).tolist() == [1, 1, 1, 1]
    # The first person has 0 and 1: of the others only what those are nearest to scores.
    assert model.rows(np.array([0]))[0, 3] == 0


def test_user_neighbours_by_hand():
    """Nearest by what they have: 0 is all of 0's company in 1 (2/√6); 2 and 3 are nearest to each other (2/3)."""
    model = user_knn.fit(sparse(RATED), neighbours=1)
    had = model.company.toarray()
    assert had[0] == pytest.approx([0, 2 / np.sqrt(6), 0, 0])
    assert (had > 0).sum() == 4
    assert np.diag(had).tolist() == [0, 0, 0, 0]
    # Shared by two, a row's nearest is the other one behind it, and there is room for one only.
    shared = user_knn.fit(sparse(RATED), np.array([2, 1, 1, 1]), neighbours=1).company.toarray()
    assert shared[0] == pytest.approx([1, 0, 0, 0])
    two = user_knn.fit(sparse(RATED), np.array([4, 1, 1, 1]), neighbours=2).company.toarray()
    assert two[1] == pytest.approx([2 * 2 / np.sqrt(6), 0, 0, 0])


def test_dense_half_step_equals_the_kernel():
    rng = np.random.default_rng(2)
    values = rng.random((7, 5)).astype(np.float32)
    features, offsets = rng.standard_normal((5, 3)).astype(np.float32), rng.random(5).astype(np.float32)
    full = sp.csr_array(values)
    expected = half_step(full.indptr, full.indices, full.data, features, offsets, 0.05)
    assert als._dense_half_step(values, features, offsets, 0.05) == pytest.approx(expected, abs=1e-4)


def test_gram_matrix_counts_users():
    weights = np.array([1, 2, 3, 4])
    expected = RATED.T @ np.diag(weights) @ RATED
    assert gram(RATED, weights) == pytest.approx(expected)
    assert gram(sparse(RATED), weights) == pytest.approx(expected)


def test_keep_largest():
    values = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    keep_largest(values, 2)
    assert values.tolist() == [[3, 0, 2], [0, 5, 4]]
    keep_largest(values, 9)
    assert values.tolist() == [[3, 0, 2], [0, 5, 4]]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30), st.integers(1, 7))
def test_picked_cells_do_not_depend_on_blocks(cells, at_once):
    table = np.arange(24).reshape(6, 4)
    users, items = (np.array([cell[side] for cell in cells], np.int64) for side in (0, 1))
    assert pick(lambda rows: table[rows], users, items, at_once).tolist() == table[users, items].tolist()
