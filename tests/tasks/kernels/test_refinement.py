"""Test re-estimated profiles: exact turns, new levels, means that stay, items that were not held."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.public_prior import Prior, find_prior
from tasks.kernels.refinement import Refinement, turn


def cohort(coordinates, own, levels, factors):
    return (3 + own[:, None] + levels + coordinates @ factors.T).astype(np.float32)


def prior_of(values, rank):
    sizes = np.full(len(values), 5)
    return find_prior(lambda: iter([(values, sizes)]), values.shape[1], rank, np.random.default_rng(0))


def centred(rng, *shape):
    values = rng.standard_normal(shape)
    return values - values.mean(axis=0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_a_turn_of_the_same_space_is_exact(seed, rank):
    rng = np.random.default_rng(seed)
    older = rng.standard_normal((25, rank))
    newer = older @ (rng.standard_normal((rank, rank)) + 3 * np.eye(rank))
    coordinates = rng.standard_normal((6, rank))
    assert coordinates @ turn(older, newer) @ newer.T == pytest.approx(coordinates @ older.T, abs=1e-4)


def test_a_turn_keeps_lengths_where_a_regression_shortens():
    rng = np.random.default_rng(0)
    newer = rng.standard_normal((4000, 1))
    older = newer + rng.standard_normal((4000, 1))  # as much error as truth
    assert abs(turn(older, newer)[0, 0]) == pytest.approx(np.sqrt(2), rel=0.05)  # the ratio of their lengths


def test_a_direction_that_nobody_has_is_left_out():
    older = np.column_stack([np.arange(5.0) - 2, np.zeros(5)])
    turned = turn(older, older[:, :1])
    assert turned[:, 0] == pytest.approx([1, 0])


def test_profiles_of_the_right_model_stay():
    rng = np.random.default_rng(1)
    levels, factors = centred(rng, 40), centred(rng, 40, 2)
    values = cohort(centred(rng, 30, 2), centred(rng, 30), levels, factors)
    own = prior_of(values, 2)
    assert Refinement.between(own, own).values(values) == pytest.approx(values, abs=1e-3)


def test_levels_become_those_of_everybody_and_the_mean_stays():
    rng = np.random.default_rng(2)
    levels, factors = centred(rng, 40), centred(rng, 40, 2)
    tastes, own_levels = centred(rng, 30, 2), centred(rng, 30)
    poor = cohort(tastes, own_levels, levels + centred(rng, 40), factors)
    right = cohort(tastes, own_levels, levels, factors)
    new = Refinement.between(prior_of(poor, 2), prior_of(right, 2)).values(poor)
    assert new == pytest.approx(right, abs=1e-3)
    assert new.mean(axis=1) == pytest.approx(poor.mean(axis=1), abs=1e-4)


def test_items_that_a_group_does_not_hold_are_estimated():
    rng = np.random.default_rng(3)
    levels, factors = centred(rng, 40), centred(rng, 40, 2)
    values = cohort(centred(rng, 30, 2), centred(rng, 30), levels, factors)
    gaps = values.copy()
    gaps[:, 35:] = np.nan
    new = Refinement.between(prior_of(gaps, 2), prior_of(values, 2)).values(gaps)
    assert new == pytest.approx(values, abs=0.3)
    nobody = Prior(np.zeros(40, np.float32), np.zeros((40, 2), np.float32), np.arange(40) < 3)
    assert np.isnan(Refinement.between(prior_of(gaps, 2), nobody).values(gaps)[:, 3:]).all()
