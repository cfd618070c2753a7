"""Test the measures of recommendation lists and rankings, worked by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tasks.kernels.ranking import hits, kendall_tau, ndcg, recall, top_items

SCORES = np.array([[0.9, 0.1, 0.5, 0.7], [0.2, 0.3, 0.1, 0.0]], np.float32)
KNOWN = sp.csr_array(np.array([[1, 0, 0, 0], [0, 0, 0, 1]]))
RELEVANT = sp.csr_array(np.array([[0, 1, 1, 0], [0, 0, 1, 0]]))


def test_the_best_unknown_items_come_first():
    assert top_items(SCORES, KNOWN, 2).tolist() == [[3, 2], [1, 0]]
    assert top_items(SCORES, KNOWN, 9).shape == (2, 4)
    assert SCORES[0, 0] == pytest.approx(0.9)  # what was given is as before


def test_hits_ndcg_and_recall_by_hand():
    listed = top_items(SCORES, KNOWN, 2)
    hit = hits(listed, RELEVANT)
    assert hit.tolist() == [[False, True], [False, False]]
    many = np.diff(RELEVANT.indptr)
    # One of two relevant items, in the second place: 1/log2(3) of 1 + 1/log2(3).
    assert ndcg(hit, many) == pytest.approx([(1 / np.log2(3)) / (1 + 1 / np.log2(3)), 0])
    assert recall(hit, many).tolist() == [0.5, 0]
    longer = hits(top_items(SCORES, KNOWN, 3), RELEVANT)
    assert recall(longer, many).tolist() == [1, 1]
    assert ndcg(longer, many)[1] == pytest.approx(1 / np.log2(4))  # third place of one relevant item


def test_more_relevant_items_than_places():
    hit = np.array([[True, True]])
    assert ndcg(hit, np.array([7])) == pytest.approx([1])
    assert recall(hit, np.array([7])) == pytest.approx([2 / 7])


def test_kendalls_tau_by_hand():
    # Of six pairs five agree and one (the last two) does not: (5 − 1)/6.
    assert kendall_tau(np.array([1, 2, 3, 4]), np.array([1, 2, 4, 3])) == pytest.approx(4 / 6)
    assert kendall_tau(np.array([1, 2, 3]), np.array([3, 2, 1])) == -1
    assert kendall_tau(np.array([1, 1, 1]), np.array([3, 2, 1])) is None


@given(st.integers(0, 10**6))
def test_no_known_item_is_recommended_while_another_is_left(seed):
    rng = np.random.default_rng(seed)
    scores, known = rng.standard_normal((5, 12)), sp.csr_array(rng.random((5, 12)) < 0.5)
    for row, items in enumerate(top_items(scores, known, 3)):
        had = set(known.indices[known.indptr[row] : known.indptr[row + 1]])
        best = [item for item in np.argsort(-scores[row]) if item not in had][:3]
        assert items[: len(best)].tolist() == best
