"""Test phantom raters: how their tastes and ratings are distributed, and where they are added."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels.phantom_raters import (
    add_phantoms,
    draw_ratings,
    draw_tastes,
    hide_levels,
    rater_covariance,
)


def test_covariance_counts_a_user_as_often_as_they_rated():
    factors = np.array([[1, 0], [0, 2]], np.float32)
    assert rater_covariance(factors, np.array([3, 1])).tolist() == [[0.75, 0], [0, 1]]
    assert rater_covariance(factors, np.array([3, 1]), block=1).tolist() == [[0.75, 0], [0, 1]]


def test_tastes_have_the_covariance_of_real_raters():
    wanted = np.array([[1.0, 0.3], [0.3, 0.5]])
    tastes = draw_tastes(wanted, 200_000, np.random.default_rng(0)).astype(np.float64)
    assert tastes.T @ tastes / len(tastes) == pytest.approx(wanted, abs=0.01)


def test_ratings_carry_the_level_and_noise_that_adds_up_to_zero():
    levels = np.full(20_000, 0.5, np.float32)
    given = draw_ratings(levels, 40, error=0.9, rng=np.random.default_rng(0))
    assert given.mean(axis=1) == pytest.approx(levels, abs=1e-5)
    assert given.std() == pytest.approx(0.9 * np.sqrt(39 / 40), rel=0.02)


def test_levels_get_noise_of_two_scale_widths_in_their_sum_and_are_shrunk():
    many = 40_000
    levels = np.tile(np.array([0.5, -0.5], np.float32), many // 2)
    counts = np.full(many, 4)
    hidden = hide_levels(levels, counts, prior=4.0, span=4.0, rng=np.random.default_rng(0))
    # The levels' variance is 1/4, that of the noise in a sum 64: 64 / (4 · 1/4) = 64 joins the divisor of 8.
    assert hidden[::2].mean() == pytest.approx(0.5 * 8 / 72, abs=0.01)
    assert hidden[::2].std() == pytest.approx(8 / 72, rel=0.02)
    popular = hide_levels(levels, np.full(many, 100_000), 4.0, 4.0, np.random.default_rng(0))
    assert popular == pytest.approx(levels, abs=1e-3)


def test_phantoms_are_added_to_the_marked_items_only():
    part = sp.csr_array(np.array([[0, 4.0, 0], [5.0, 0, 3.0]], np.float32))
    joined = add_phantoms(part, np.array([[1.5, 2.5], [9, 9]], np.float32), np.array([True, False]))
    assert joined.toarray().tolist() == [[0, 4, 0, 1.5, 2.5], [5, 0, 3, 0, 0]]
    assert joined.nnz == 5
