"""Test what a reader learns from counts of raters: shares of groups, and the Gram matrix for EASE."""

import numpy as np
import pytest

from tasks.recommenders import ease
from tasks.recommenders._support import gram_of_groups, shares_of_groups


def published(real, sizes):
    """Round and limit real counts as the rule does, without leaving any out."""
    may = (real >= 3) & (2 * real <= sizes[:, None])
    return np.where(may, real // 3 * 3, 0)


def test_gram_by_hand():
    shares = np.array([[0.5, 0.0], [0.25, 0.5]])
    expected = 20 * np.outer(shares[0], shares[0]) + 40 * np.outer(shares[1], shares[1])
    assert gram_of_groups(shares, np.array([20, 40])) == pytest.approx(expected)


def test_published_cells_stand_for_their_range():
    """3 stands for 3 to 5; 9 of 20 for 9 and 10, so not for more than half."""
    found = shares_of_groups(np.array([[3], [9], [0], [6]]), np.full(4, 20), 3)
    assert found[[0, 1, 3], 0] == pytest.approx([4 / 20, 10 / 20, 7 / 20])
    assert 0 < found[2, 0] < 1


@pytest.mark.parametrize("popularity", [0.02, 0.1, 0.3, 0.45, 0.6])
def test_blank_cells_get_the_mean_of_the_blank_cells(popularity):
    """Counts of a beta-binomial law: blank cells' share is estimated within .06, whether they are low or high."""
    draw, sizes = np.random.default_rng(1), np.full(300, 20)
    rate = draw.beta(popularity * 30, (1 - popularity) * 30, (300, 8))
    real = draw.binomial(20, rate)
    shown = published(real, sizes)
    found = shares_of_groups(shown, sizes, 3)
    blank = shown == 0
    assert found[blank].mean() == pytest.approx((real / 20)[blank].mean(), abs=0.06)


def test_ease_finds_items_that_go_together():
    """Groups like the even items or the odd ones: who rated an even item gets the other even ones first."""
    draw, sizes = np.random.default_rng(0), np.full(400, 20)
    even = np.arange(10) % 2 == 0
    rate = np.where((np.arange(400) % 2 == 0)[:, None] == even[None, :], 0.3, 0.05)
    shown = published(draw.binomial(20, rate), sizes)
    weights = ease.solve(gram_of_groups(shares_of_groups(shown, sizes, 3), sizes), 0.1)
    scores = np.eye(10)[0] @ weights
    assert scores[even][1:].min() > scores[~even].max()
    assert (np.diag(weights) == 0).all()
