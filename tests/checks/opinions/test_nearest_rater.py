"""Test whether columns that repeat one of their raters are found, and columns that follow all of them are not."""

import numpy as np
import pytest

from checks.opinions.nearest_rater import find_nearest
from checks.opinions.raters import Opinions


def drawn(items: int, raters: int, seed: int = 0) -> tuple[Opinions, np.ndarray]:
    """Opinions with a taste that an item's raters share, and their mean."""
    draw = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), raters)
    own = np.rint(draw.normal(0, 1, items)[item] + draw.normal(0, 1, len(item)))
    mean = np.bincount(item, weights=own) / raters
    others = (raters * mean[item] - own) / max(raters - 1, 1)
    return Opinions(item, own, others, np.full(len(item), raters == 1), item), mean


def gain(level, opinions):
    return find_nearest(level, opinions, np.random.default_rng(9))


@pytest.mark.parametrize("raters", [2, 3, 8])
@pytest.mark.parametrize("strength", [0.4, -0.4])
def test_columns_that_repeat_a_rater(raters, strength):
    opinions, _ = drawn(150, raters)
    which = np.arange(150) * raters + np.random.default_rng(1).integers(0, raters, 150)
    found = gain(strength * opinions.own[which], opinions)
    assert found.r > 0.9
    assert found.least(3.0) > 0.8


@pytest.mark.parametrize("raters", [2, 3, 8, 20])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_columns_that_follow_all_raters(raters, noise):
    """What the mean of the raters explains is judged elsewhere."""
    opinions, mean = drawn(150, raters)
    found = gain(mean + np.random.default_rng(1).normal(0, noise, 150), opinions)
    assert found.least(2.5) < 0.2


def test_nothing_to_compare():
    opinions, mean = drawn(30, 1)
    assert gain(mean, opinions).least(2.0) == 0
    opinions, _ = drawn(30, 3)
    assert gain(np.zeros(30), opinions).r == 0
