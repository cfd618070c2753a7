"""Test similarities of items by hand, and against plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels import item_similarity

DENSE = np.array([[5, 4, 0, 1], [3, 3, 0, 0], [1, 2, 5, 0], [0, 4, 3, 2]], np.float32)
RATINGS = sp.csr_array(DENSE)


def of_first(similarity, quotient="exp(-n)"):
    return next(item_similarity.similarities(RATINGS, np.array([0]), similarity, quotient))[0]


def test_compound_similarity_by_hand():
    """Three people rated items 0 and 1: 5 4, 3 3, 1 2. One rated 0 and 2 (1 5), one 0 and 3 (5 1)."""
    expected = [1, 1 - 2 / 3 * np.exp(-3), 1 - 4 * np.exp(-1), 1 - 4 * np.exp(-1)]
    assert of_first("compound") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("quotient", "of_three"),
    [
        ("1/n", 1 / 3),
        ("1/sqrt(n)", 1 / np.sqrt(3)),
        ("1/(1+log(n))", 1 / (1 + np.log(3))),
        ("1", 1.0),
    ],
)
def test_other_quotients(quotient, of_three):
    assert of_first("compound", quotient) == pytest.approx([1, 1 - 2 / 3 * of_three, -3, -3])


def test_correlation_and_cosine_run_over_common_raters():
    # 5 3 1 against 4 3 2; a single user has no variance.
    assert of_first("pearson") == pytest.approx([1, 1, -np.inf, -np.inf])
    assert of_first("cosine") == pytest.approx([1, 31 / np.sqrt(35 * 29), 1, 1])


def test_adjusted_cosine_uses_each_users_mean():
    # Means 10/3, 3, 8/3: item 0 is 5/3, 0, −5/3; item 1 is 2/3, 0, −2/3; items 2 and 3 lie on the other side.
    assert of_first("adjusted-cosine") == pytest.approx([1, 1, -1, -1])


def test_jaccard_counts_people():
    assert of_first("jaccard") == pytest.approx([1, 3 / 4, 1 / 4, 1 / 4])


def test_items_without_a_common_rater_are_not_similar():
    apart = sp.csr_array(np.array([[5, 0], [0, 5]], np.float32))
    for similarity in item_similarity.SIMILARITIES:
        found = next(item_similarity.similarities(apart, np.array([0]), similarity))
        assert not found[0, 1] > -1


def test_find_similar_marks_similar_candidates():
    bits = item_similarity.find_similar(RATINGS, np.array([2, 0]), 0.95)
    assert bits.shape == (4, 1)
    # Item 0 is like itself and like 1; item 2 like itself; 2 and 1: 2 5 and 4 3, mean 2, e⁻² is not small enough.
    assert bits[:, 0].tolist() == [0b10, 0b10, 0b01, 0b00]


def test_no_candidates_have_no_bits():
    assert item_similarity.find_similar(RATINGS, np.empty(0, int), 0.95).shape == (4, 0)


def test_an_unknown_measure_is_refused():
    with pytest.raises(ValueError, match="got 'dice' and 'exp"):
        next(item_similarity.similarities(RATINGS, np.array([0]), "dice"))
    with pytest.raises(ValueError, match="got 'compound' and 'n!'"):
        next(item_similarity.similarities(RATINGS, np.array([0]), "compound", "n!"))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(item_similarity.SIMILARITIES))
def test_the_same_as_plain_loops(seed, similarity):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((12, 70)) < 0.4, rng.integers(1, 6, (12, 70)), 0).astype(np.float32)
    dense[:, 0] = rng.integers(1, 6, 12)  # every user has a rating
    candidates = rng.permutation(70)[: rng.integers(1, 70)]
    found = np.concatenate(list(item_similarity.similarities(sp.csr_array(dense), candidates, similarity)))
    for row, j in enumerate(candidates):
        expected = [plain(dense, i, j, similarity) for i in range(70)]
        assert found[row] == pytest.approx(expected, abs=1e-6)


def plain(dense, i, j, similarity):
    both = (dense[:, i] > 0) & (dense[:, j] > 0)
    if not both.any():
        return -np.inf
    x, y = dense[both, i].astype(float), dense[both, j].astype(float)
    if similarity == "jaccard":
        return both.sum() / ((dense[:, i] > 0) | (dense[:, j] > 0)).sum()
    if similarity == "compound":
        return 1 - np.abs(x - y).mean() * np.exp(-both.sum())
    if similarity == "pearson":
        x, y = x - x.mean(), y - y.mean()
    if similarity == "adjusted-cosine":
        mine = np.array([row[row > 0].astype(float).mean() for row in dense])[both]
        x, y = x - mine, y - mine
    if (x**2).sum() < 1e-9 or (y**2).sum() < 1e-9:
        return -np.inf
    return (x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum())
