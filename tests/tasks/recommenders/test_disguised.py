"""Test predictors on disguised z-scores: small cases by hand, and the models against plain versions of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.recommenders import averages, pearson, svd_cf, svd_em

NO = np.nan


def known(rows: list[list[float]]) -> sp.csr_array:
    """Return a sparse matrix of the cells that are numbers, 0 included."""
    cells = np.array(rows, dtype=float)
    row, column = np.nonzero(~np.isnan(cells))
    return sp.csr_array((cells[row, column], (row, column)), shape=cells.shape)


def all_cells(train) -> tuple[np.ndarray, np.ndarray]:
    users, items = np.indices(train.shape)
    return users.ravel(), items.ravel()


def plain_em(train: sp.csr_array, rank: int, iterations: int, variance: float = 0.0) -> np.ndarray:
    """Run [Zhang2006], section 5, as it is written."""
    mask = np.zeros(train.shape, dtype=bool)
    coordinates = train.tocoo()
    mask[coordinates.row, coordinates.col] = True
    values = train.toarray()
    model = np.zeros(train.shape)
    for _ in range(iterations):
        filled = np.where(mask, values, model)
        gram = filled.T @ filled - np.diag(variance * mask.sum(axis=0))
        main = np.linalg.eigh(gram)[1][:, -rank:]
        model = filled @ main @ main.T
    return model


@pytest.mark.parametrize("items", [30, 400])  # all eigenvectors, and some by iteration
@pytest.mark.parametrize("variance", [0.0, 0.3])
def test_em_equals_the_plain_algorithm(taste_matrix, items, variance):
    train = taste_matrix(users=50, items=items, share=0.3).astype(float)
    train.data -= 3
    ours = svd_em.fit(train, rank=3, iterations=4, noise_variance=variance)
    expected = plain_em(train, 3, 4, variance)
    assert np.allclose(ours.rows(np.arange(50)), expected, atol=1e-6)
    users, items_ = all_cells(train)
    assert np.allclose(ours.predict(users, items_), expected.ravel(), atol=1e-6)


def test_em_completes_a_rank_one_matrix():
    # Two tastes, opposite: rows ± (1, −1, 2). What is missing follows from the others in the limit.
    train = known([[1, -1, 2], [-1, 1, -2], [1, -1, NO], [NO, 1, -2]])
    found = svd_em.fit(train, rank=1, iterations=200).rows(np.arange(4))
    assert found[2, 2] == pytest.approx(2, abs=1e-6)
    assert found[3, 0] == pytest.approx(-1, abs=1e-6)


def test_a_stored_zero_is_known():
    # Person 2 said 0 for the last item; person 3 said nothing.
    train = known([[1, 1], [1, 1], [1, 0], [1, NO]])
    found = svd_em.fit(train, rank=1, iterations=100).rows(np.arange(4))
    assert found[3, 1] > found[2, 1] + 0.2


def test_nothing_to_learn_from():
    empty = sp.csr_array((5, 400))
    assert not svd_em.fit(empty).rows(np.arange(5)).any()
    assert not svd_cf.fit(known([[0, 0], [0, 0]])).rows(np.arange(2)).any()


def test_one_round_suffices_without_missing_cells():
    dense = np.random.default_rng(1).standard_normal((40, 20))
    left, values, right = np.linalg.svd(dense)
    expected = (left[:, :4] * values[:4]) @ right[:4]
    for model in (
        svd_em.fit(dense, rank=4),
        svd_cf.fit(dense, rank=4),
        svd_cf.fit(dense, rank=4, noise_variance=0.5),  # the same off every item: no direction changes
    ):
        assert np.allclose(model.rows(np.arange(40)), expected)


def test_svd_cf_subtracts_the_noise_of_an_items_raters():
    # Item 0 is noise alone of 200 raters, items 1 and 2 agree: without correction item 0 is the main direction.
    rng = np.random.default_rng(0)
    cells = np.full((200, 3), NO)
    cells[:, 0] = rng.normal(0, 2, 200)
    cells[:100, 1] = cells[:100, 2] = rng.normal(0, 1.5, 100)
    train = known(cells.tolist())
    loud, corrected = (
        svd_cf.fit(train, rank=1, noise_variance=variance).right[:, 0] for variance in (0.0, 4.0)
    )
    assert abs(loud).argmax() == 0
    assert abs(corrected[0]) < 0.2


def test_pearson_by_hand():
    # w(0,1) = 1·1 + (−1)(−1) = 2; w(0,2) = 1·(−1) + (−1)·1 = −2; w(0,3) = 1·0.5 = 0.5.
    train = known([[1, -1, NO, NO], [1, -1, 1, NO], [-1, 1, -0.5, NO], [0.5, NO, -1, 2]])
    model = pearson.fit(train)
    found = model.rows(np.array([0]))[0]
    assert found[2] == pytest.approx((2 * 1 + -2 * -0.5 + 0.5 * -1) / 4.5)
    assert found[3] == pytest.approx(2)
    # Item 0 by the others only: (2·1 + −2·−1 + 0.5·0.5) / 4.5.
    assert found[0] == pytest.approx(4.25 / 4.5)
    assert model.rows(np.array([3]))[0, 3] == 0  # no other user rated it: the user's mean
    cells = model.predict(np.array([3, 0, 0]), np.array([3, 2, 3]))
    assert cells == pytest.approx([0, found[2], 2])


def test_pearson_with_own_undisguised_scores():
    disguised = known([[9, 9, NO], [1, -1, 1], [-1, 1, 2]])
    own = known([[1, -1, NO], [1, -1, 1], [-1, 1, 2]])
    # w(0,1) = 2, w(0,2) = −2 whatever the person disguised for others.
    assert pearson.fit(disguised, own=own).predict(np.array([0]), np.array([2])) == pytest.approx([-0.5])


def test_pearson_does_not_depend_on_blocks(taste_matrix, monkeypatch):
    train = taste_matrix(users=30, items=20).astype(float)
    users, items = all_cells(train)
    whole = pearson.fit(train).predict(users, items)
    monkeypatch.setattr(pearson, "BLOCK_CELLS", 7 * 30)
    assert np.array_equal(pearson.fit(train).predict(users, items), whole)
    assert np.allclose(whole.reshape(train.shape), pearson.fit(train).rows(np.arange(30)))


def test_averages_by_hand():
    train = known([[1, 2, NO], [3, NO, NO], [NO, NO, NO]])
    items, users = (averages.fit(train, of=of).rows(np.arange(3)).tolist() for of in ("items", "users"))
    assert items == [[2, 2, 2]] * 3  # the last item has no ratings: the mean of all
    assert users == [[1.5] * 3, [3] * 3, [2] * 3]
    assert averages.fit(train).predict(np.array([1]), np.array([1])).tolist() == [2]


@given(st.integers(0, 1_000), st.integers(1, 6))
def test_predicted_cells_equal_rows(seed, rank):
    rng = np.random.default_rng(seed)
    train = sp.csr_array(np.where(rng.random((8, 6)) < 0.6, rng.standard_normal((8, 6)), 0))
    users, items = all_cells(train)
    for model in (
        svd_em.fit(train, rank=rank),
        svd_cf.fit(train, rank=rank),
        pearson.fit(train),
        averages.fit(train) if train.nnz else svd_cf.fit(train),
    ):
        assert np.allclose(model.predict(users, items).reshape(8, 6), model.rows(np.arange(8)))


def test_settings_are_checked():
    with pytest.raises(ValidationError, match="rank"):
        svd_em.fit(known([[1.0]]), rank=0)
    with pytest.raises(ValidationError, match="iterations"):
        svd_cf.fit(known([[1.0]]), iterations=3)
