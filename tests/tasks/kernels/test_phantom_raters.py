"""Test phantom raters: how their tastes and ratings are distributed, and where they are added."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels.phantom_raters import add_phantoms, draw_ratings, draw_tastes, rater_covariance


def test_covariance_counts_a_user_as_often_as_they_rated():
    factors = np.array([[1, 0], [0, 2]], np.float32)
    assert rater_covariance(factors, np.array([3, 1])).tolist() == [[0.75, 0], [0, 1]]
    assert rater_covariance(factors, np.array([3, 1]), block=1).tolist() == [[0.75, 0], [0, 1]]


def test_tastes_have_the_covariance_of_real_raters():
    wanted = np.array([[1.0, 0.3], [0.3, 0.5]])
    tastes = draw_tastes(wanted, 200_000, np.random.default_rng(0)).astype(np.float64)
    assert tastes.T @ tastes / len(tastes) == pytest.approx(wanted, abs=0.01)


def test_ratings_carry_the_level_and_noise_of_one_scale_width_in_their_sum():
    levels = np.full(20_000, 0.5, np.float32)
    given = draw_ratings(levels, 40, error=0.9, level_noise=4.0, rng=np.random.default_rng(0))
    sums = (given - 0.5).sum(axis=1)
    assert sums.mean() == pytest.approx(0, abs=0.1)
    assert sums.std() == pytest.approx(4.0, rel=0.02)
    assert (given - given.mean(axis=1, keepdims=True)).std() == pytest.approx(0.9 * np.sqrt(39 / 40), rel=0.02)


def test_phantoms_are_added_to_the_marked_items_only():
    part = sp.csr_array(np.array([[0, 4.0, 0], [5.0, 0, 3.0]], np.float32))
    joined = add_phantoms(part, np.array([[1.5, 2.5], [9, 9]], np.float32), np.array([True, False]))
    assert joined.toarray().tolist() == [[0, 4, 0, 1.5, 2.5], [5, 0, 3, 0, 0]]
    assert joined.nnz == 5
