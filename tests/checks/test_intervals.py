"""Test intervals that are widened for attempts, and the exact tests of orders."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from checks import stats
from checks.stats import (
    Risk,
    chance_of_neighbours,
    chance_of_order,
    corrected_for,
    ratio_interval,
    shown_above,
    wilson,
)


def test_intervals_are_widened_for_attempts():
    """Bonferroni: with ten attempts, intervals of 99.5 %."""
    once = wilson(30, 100)
    with corrected_for(10):
        assert wilson(30, 100) == wilson(30, 100, float(norm.isf(0.0025)))
        kept = Risk(30, 100)
        assert stats.correlation(np.arange(9.0), np.array([1, 2, 3, 5, 4, 6, 9, 8, 7.0]))[2] > 0.96
    assert wilson(30, 100) == once  # nothing is left behind
    assert kept.interval == wilson(
        30, 100, float(norm.isf(0.0025))
    )  # read later, with the width it was made with
    assert kept.interval[0] < once[0] < once[1] < kept.interval[1]
    assert kept.uncorrected.interval == once


def test_one_attempt_changes_nothing():
    with corrected_for(1):
        assert wilson(3, 10) == wilson(3, 10, stats.Z95)


def test_an_error_inside_resets_the_number():
    with pytest.raises(ZeroDivisionError), corrected_for(5):
        _ = 1 / 0
    assert stats.attempts_so_far() == 1


def test_orders_by_hand():
    """Five values: of 120 orders one has no inversion and one has all ten, four have one inversion."""
    draw = np.random.default_rng(0)
    values = np.array([10.0, 20, 30, 40, 50])
    assert chance_of_order(np.arange(5), values, draw) == pytest.approx(2 / 120)
    assert chance_of_order(np.arange(5)[::-1], values, draw) == pytest.approx(2 / 120)
    assert chance_of_order(np.array([1, 0, 2, 3, 4]), values, draw) == pytest.approx(2 * 5 / 120)
    assert chance_of_order(np.arange(5), np.ones(5), draw) == 1
    assert chance_of_order(np.arange(10), np.arange(10.0), draw) == pytest.approx(2 / math.factorial(10))


def test_exact_chances_are_never_too_small():
    """Over all orders of six, also with equal values, a chance of at most x occurs at most that often."""
    draw = np.random.default_rng(1)
    for values in (np.arange(6.0), np.array([1.0, 1, 2, 2, 2, 3])):
        found = np.array(
            [chance_of_order(np.array(p), values, draw) for p in itertools.permutations(range(6))]
        )
        for level in (0.01, 0.05, 0.2):
            assert (found <= level + 1e-9).mean() <= level * 1.5 + (0 if len(set(values)) == 6 else 0.02)


@pytest.mark.parametrize("count", [150, 400, 1500])
def test_random_orders_are_accepted_and_sorted_ones_are_not(count):
    draw = np.random.default_rng(2)
    values = draw.lognormal(0, 2, count).round()  # as activity: skewed, with equal ones
    drawn = [chance_of_order(draw.permutation(count), values, draw) for _ in range(200)]
    assert np.mean(np.array(drawn) < 0.05) < 0.12
    assert min(drawn) > 1e-6
    assert chance_of_order(np.argsort(np.argsort(values)), values, draw) < 1e-6


def test_blocks_in_random_order_are_found():
    """No trend over all, but neighbours are alike."""
    draw = np.random.default_rng(3)
    values = np.repeat(draw.permutation(60), 25) + draw.random(1500)
    order = np.arange(1500)
    assert chance_of_neighbours(order, values, draw) < 1e-6
    assert min(chance_of_neighbours(draw.permutation(1500), values, draw) for _ in range(100)) > 1e-4
    assert chance_of_neighbours(order[:500], values[:500], draw) == 1  # too few to know the distribution


def test_interval_of_a_ratio_by_hand():
    """2 ± 0.5 over an exact 4, two standard deviations wide: (2 ± 1) / 4."""
    exact = np.diag([0.25, 0.0])
    assert ratio_interval(2, 4, exact, 2) == pytest.approx((0.25, 0.75))
    assert shown_above(2, 4, 0.24, exact, 2)
    assert not shown_above(2, 4, 0.26, exact, 2)


def test_a_ratio_over_nothing_has_no_interval_but_can_be_shown():
    """A denominator of 0.1 ± 1 may be 0. A numerator of 9 is above 0.75 times it all the same, one of 1 is not."""
    unsure = np.diag([1.0, 1.0])
    assert ratio_interval(9, 0.1, unsure, 2) == (None, None)
    assert shown_above(9, 0.1, 0.75, unsure, 2)
    assert not shown_above(1, 0.1, 0.75, unsure, 2)


@pytest.mark.parametrize("room", [0.0, 0.5, 3.0])
def test_a_ratio_at_the_limit_is_rarely_shown_to_be_above(room):
    """Numerator and denominator with errors that depend on each other: one in forty, whatever the denominator is."""
    draw, limit = np.random.default_rng(4), 0.75
    spread = np.array([[1.0, 0.6], [0.6, 1.0]])
    errors = draw.multivariate_normal([0, 0], spread, 4000)
    shown = [shown_above(limit * room + a, room + b, limit, spread, stats.Z95) for a, b in errors]
    assert 0.015 < np.mean(shown) < 0.035
    inside = [
        low is None or low <= limit <= high
        for low, high in (ratio_interval(limit * room + a, room + b, spread, stats.Z95) for a, b in errors)
    ]
    assert np.mean(inside) > 0.93
