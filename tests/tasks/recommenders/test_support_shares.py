"""Test what a reader learns from counts of raters: shares of groups, and the Gram matrix for EASE."""

import numpy as np
import pytest

from tasks.kernels.support import Counts, shown_counts
from tasks.recommenders import ease
from tasks.recommenders._support import gram_of_groups, shares_of_groups


def published(real, sizes):
    """Show real counts as the rule does."""
    group, item = np.nonzero(real)
    found = np.zeros_like(real)
    found[group, item] = shown_counts(Counts(group, item, real[group, item], sizes, real.shape[1]), 3)
    return found


def test_gram_by_hand():
    shares = np.array([[0.5, 0.0], [0.25, 0.5]])
    expected = 20 * np.outer(shares[0], shares[0]) + 40 * np.outer(shares[1], shares[1])
    assert gram_of_groups(shares, np.array([20, 40])) == pytest.approx(expected)


def test_published_cells_stand_for_their_range():
    """0 stands for 0 to 2, 3 for 3 to 5, 6 for 6 and 7, since 8 is shown, and 8 for 8 and more."""
    found = shares_of_groups(np.array([[3], [8], [0], [6]]), np.full(4, 20), 3)[:, 0]
    assert 3 <= 20 * found[0] <= 5
    assert 8 < 20 * found[1] <= 10 + 1e-4
    assert 0 < 20 * found[2] <= 2
    assert 6 <= 20 * found[3] <= 7


def test_an_item_of_which_nothing_is_shown_is_rare():
    found = shares_of_groups(np.zeros((30, 2), int), np.full(30, 20), 3)
    assert (found < 3 / 20).all()


@pytest.mark.parametrize("popularity", [0.02, 0.1, 0.3, 0.45, 0.6])
def test_cells_get_the_mean_of_the_cells_that_show_the_same(popularity):
    """Counts of a beta-binomial law: the shares of blank cells, and of those with the highest count, are estimated
    within .06."""
    draw, sizes = np.random.default_rng(1), np.full(300, 20)
    rate = draw.beta(popularity * 30, (1 - popularity) * 30, (300, 8))
    real = draw.binomial(20, rate)
    shown = published(real, sizes)
    found = shares_of_groups(shown, sizes, 3)
    for same in (shown == 0, (shown == shown.max(axis=0)) & (shown > 0)):
        if same.any():
            assert found[same].mean() == pytest.approx((real / 20)[same].mean(), abs=0.06)


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
