"""Test the prior from published profiles: worked cases, exact recovery of low rank, gaps, scale, unknown items."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.phantom_raters import hide_levels
from tasks.kernels.public_prior import Prior, find_prior, nothing_known, predicted


def low_rank(groups=60, items=40, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    tastes, factors = rng.standard_normal((groups, rank)), rng.standard_normal((items, rank)) * 0.3
    levels = rng.standard_normal(items)
    own = rng.standard_normal((groups, 1)) * 0.2
    return (3.5 + levels + own + tastes @ factors.T).astype(np.float32), rng.integers(5, 9, groups)


def found(values, sizes, rank, at_once=17):
    def blocks():
        for start in range(0, len(values), at_once):
            yield values[start : start + at_once].copy(), sizes[start : start + at_once]

    return find_prior(blocks, values.shape[1], rank, np.random.default_rng(0))


def unexplained(values, prior):
    """Return the largest part of the profiles that is no combination of level, factors and a constant."""
    known = np.column_stack([prior.factors, np.ones(len(prior.levels))])
    rest = values - prior.levels
    fit = np.linalg.lstsq(known, rest.T, rcond=None)[0]
    return np.abs(rest.T - known @ fit).max()


def test_worked_case_of_two_groups():
    # Row means 3 and 4; centred rows (−1, 0, 1) and (1, 0, −1): the levels cancel out, one direction is left.
    prior = found(np.array([[2, 3, 4], [5, 4, 3]], np.float32), np.array([5, 5]), 2)
    assert prior.levels == pytest.approx([0, 0, 0], abs=1e-6)
    assert abs(prior.factors[0, 0]) == pytest.approx(abs(prior.factors[2, 0]))
    assert prior.factors[0, 0] == pytest.approx(-prior.factors[2, 0])
    assert prior.factors[1, 0] == pytest.approx(0, abs=1e-5)
    assert prior.factors[:, 1] == pytest.approx([0, 0, 0], abs=1e-5)
    # Ten people, each √2 from the mean: strength √(10 · 2). Penalty of people 230, of items 130 + 1000/3.
    length = np.sqrt(np.sqrt(20)) * (230 / (130 + 1000 / 3)) ** 0.25
    assert np.linalg.norm(prior.factors[:, 0]) == pytest.approx(length, rel=1e-4)


def test_levels_are_weighted_by_the_groups_sizes():
    prior = found(np.array([[2, 4], [4, 2]], np.float32), np.array([5, 15]), 1)
    assert prior.levels == pytest.approx([0.5, -0.5], abs=1e-6)


def test_low_rank_profiles_are_recovered():
    values, sizes = low_rank()
    assert unexplained(values, found(values, sizes, 3)) < 1e-3
    assert unexplained(values, found(values, sizes, 2)) > 0.1


def test_items_that_older_groups_lack_are_filled_in():
    values, sizes = low_rank()
    gaps = values.copy()
    gaps[:20, 35:] = np.nan
    prior = found(gaps, sizes, 3)
    assert prior.known.all()
    assert unexplained(values, prior) < 0.1 * np.abs(values - values.mean(axis=0)).max()


def test_unknown_items_have_zeros_and_change_nothing():
    values, sizes = low_rank()
    wider = np.hstack([values, np.full((len(values), 2), np.nan, np.float32)])
    prior, whole = found(wider, sizes, 3), found(values, sizes, 3)
    assert prior.known.tolist() == [True] * 40 + [False] * 2
    assert not prior.levels[40:].any()
    assert not prior.factors[40:].any()
    assert prior.factors[:40] == pytest.approx(whole.factors, abs=1e-4)


def test_no_profiles_at_all():
    prior = find_prior(lambda: iter(()), 4, 2, np.random.default_rng(0))
    assert not prior.known.any()
    assert prior.factors.shape == (4, 2)


def test_deterministic():
    values, sizes = low_rank()
    one, other = found(values, sizes, 3), found(values, sizes, 3)
    assert np.array_equal(one.factors, other.factors)
    assert np.array_equal(one.levels, other.levels)


def test_a_newer_cohort_replaces_what_older_ones_said():
    older = Prior(
        np.array([0.5, 0.5, 2], np.float32), np.array([[1], [2], [3]], np.float32), np.ones(3, bool), (50,)
    )
    newer = Prior(
        np.array([-1, 1, 0], np.float32),
        np.array([[-2], [-4], [0]], np.float32),
        np.array([True, True, False]),
        (60, 70),
    )
    both = older.followed_by(newer)
    # Of common items the newest levels are lower by 0.5 on average: 2 becomes 1.5. The mean, 0.5, is taken off. Newer
    # factors are −2 times the older ones.
    assert both.levels.tolist() == [-1.5, 0.5, 1.0]
    assert both.factors.ravel() == pytest.approx([-2, -4, -6], rel=1e-4)
    assert both.known.all()
    assert both.cohorts == (50, 60, 70)


def test_the_first_cohort_follows_nothing():
    values, sizes = low_rank()
    first = found(values, sizes, 3)
    both = nothing_known(40, 3).followed_by(first)
    assert np.array_equal(both.factors, first.factors)
    assert both.cohorts == (int(sizes.sum()),)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_older_items_are_turned_into_the_directions_of_newer_ones(seed, rank):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((30, rank)).astype(np.float32)
    turned = factors @ (rng.standard_normal((rank, rank)) + 3 * np.eye(rank)).astype(np.float32)
    newer = turned.copy()
    newer[20:] = 0
    known = np.arange(30) < 20
    levels = rng.standard_normal(30).astype(np.float32)
    both = Prior(levels, factors, np.ones(30, bool)).followed_by(Prior(levels * known, newer, known))
    assert both.factors == pytest.approx(turned, abs=0.02 * float(np.abs(turned).max()))


def test_columns_and_rank_can_be_others():
    prior = Prior(
        np.array([1, 2], np.float32), np.array([[1, 2], [3, 4]], np.float32), np.array([True, True])
    )
    moved = prior.with_columns(np.array([1, -1, 0])).with_rank(3)
    assert moved.levels.tolist() == [2, 0, 1]
    assert moved.factors.tolist() == [[3, 4, 0], [0, 0, 0], [1, 2, 0]]
    assert moved.known.tolist() == [True, False, True]
    assert prior.with_rank(1).factors.tolist() == [[1], [3]]


def test_what_the_prior_says_of_ratings():
    features = np.array([[1, 0], [2, 1]], np.float32)
    said = predicted(
        np.array([0, 2, 3]),
        np.array([0, 1, 1]),
        features,
        np.array([[1, 1], [0, 2]], np.float32),
        np.array([0.5, -1], np.float32),
    )
    assert said.tolist() == [1.5, 3.5, 1.0]


def test_hidden_levels_are_shrunk_towards_what_is_expected():
    many = 4_000
    counts, levels = np.full(many, 4), np.full(many, 0.7, np.float32)
    expected = np.full(many, 0.7)
    hidden = hide_levels(levels, counts, 4.0, 4.0, np.random.default_rng(0), expected)
    # Nothing deviates, so the least variance, .01, is assumed: noise of 8 in the sum is divided by 8 + 64 / (4 · .01).
    assert hidden.mean() == pytest.approx(0.7, abs=0.001)
    assert hidden.std() == pytest.approx(8 / 1608, rel=0.05)
    nothing = np.full(many, np.nan)
    assert np.array_equal(
        hide_levels(levels, counts, 4.0, 4.0, np.random.default_rng(0), nothing),
        hide_levels(levels, counts, 4.0, 4.0, np.random.default_rng(0)),
    )


def test_hidden_levels_with_a_precision_are_the_best_linear_estimate():
    many = 4_000
    counts, levels = np.full(many, 4), np.full(many, 1.2, np.float32)
    expected, precision = np.full(many, 0.7), np.full(many, 10.0)
    hidden = hide_levels(levels, counts, 4.0, 4.0, np.random.default_rng(0), expected, precision, 0.8)
    # The sum of the deviations is 0.5 · (4 + 4) = 4, its noise 8; divided by 4 + 10 · (0.8 + 64 / 4) = 172.
    assert hidden.mean() == pytest.approx(0.7 + 4 / 172, abs=0.003)
    assert hidden.std() == pytest.approx(8 / 172, rel=0.05)
