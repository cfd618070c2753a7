"""Test partial correlations and their intervals against residuals of a regression and repeated draws."""

import numpy as np
import pytest

from checks.opinions.partial_correlation import correlate
from checks.opinions.raters import Opinions


def drawn(items: int, raters: int, seed: int) -> Opinions:
    """Independent opinions of each item's raters."""
    draw = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), raters)
    own = draw.normal(0, 1, len(item))
    others = (np.bincount(item, weights=own)[item] - own) / max(raters - 1, 1)
    return Opinions(item, own, others, np.full(len(item), raters == 1), draw.integers(1, 50, len(item)))


def test_one_rater_is_the_plain_correlation():
    some = drawn(50, 1, 0)
    level = some.own + np.random.default_rng(1).normal(0, 1, 50)
    assert correlate(level, some).r == pytest.approx(np.corrcoef(level, some.own)[0, 1])


def test_residuals_of_a_regression():
    some = drawn(40, 3, 0)
    level = np.random.default_rng(1).normal(0, 1, 40) + np.bincount(some.item, weights=some.own) / 3
    given = np.column_stack([np.ones(120), some.others])
    rest = [v - given @ np.linalg.lstsq(given, v, rcond=None)[0] for v in (level[some.item], some.own)]
    assert correlate(level, some).r == pytest.approx(np.corrcoef(*rest)[0, 1])


def test_the_mean_of_all_raters_reveals_each_to_whoever_knows_the_others():
    some = drawn(40, 4, 2)
    level = np.bincount(some.item, weights=some.own) / 4
    found = correlate(level, some)
    assert found.r == pytest.approx(1)
    assert found.least(2.0) > 0.9


def test_what_the_others_explain_is_no_leak():
    """A level that follows the taste which all raters share, and nobody's own opinion."""
    draw = np.random.default_rng(3)
    taste = draw.normal(0, 2, 3000)
    item = np.repeat(np.arange(3000), 20)
    own = taste[item] + draw.normal(0, 1, len(item))
    others = (np.bincount(item, weights=own)[item] - own) / 19
    found = correlate(taste, Opinions(item, own, others, np.zeros(len(item), bool), item))
    assert np.corrcoef(taste[item], own)[0, 1] > 0.85
    assert abs(found.r) < 0.25


def test_interval_counts_items():
    """The spread of repeated draws, for a level that is one draw per item however many raters it has."""
    found = []
    for seed in range(200):
        some = drawn(100, 5, seed)
        found.append(correlate(np.random.default_rng(1000 + seed).normal(0, 1, 100), some))
    inside = np.mean([f.interval(1.96)[0] <= 0 <= f.interval(1.96)[1] for f in found])
    assert inside > 0.92
    assert np.std([f.r for f in found]) == pytest.approx(np.mean([f.error for f in found]), rel=0.3)


def test_constant_level_and_few_items():
    assert correlate(np.zeros(30), drawn(30, 2, 0)).r == 0
    assert correlate(np.arange(4.0), drawn(4, 2, 0)).interval(1.96) == (-1, 1)


def test_reversed_columns_count():
    some = drawn(50, 1, 0)
    found = correlate(-some.own, some)
    assert found.most(1.96) > 0.99
    assert found.least(1.96) > 0.99


def test_first_rater_of_each_item():
    some = Opinions(
        np.array([0, 0, 1, 1]), np.arange(4.0), np.zeros(4), np.zeros(4, bool), np.array([5, 3, 2, 9])
    )
    assert some.one_per_item(some.activity).own.tolist() == [1, 2]
    assert some.one_per_item(-some.activity).own.tolist() == [0, 3]
