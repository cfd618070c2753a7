"""Test that factitious ratings are drawn on the levels of real ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.kernels.rating_levels import common_levels, draw_levels

STARS = np.arange(1, 6, dtype=np.float32)


def test_a_stray_rating_is_no_level():
    assert common_levels(np.array([4, 1, 3.33, 5]), np.array([500, 200, 1, 300])).tolist() == [1, 4, 5]


def test_on_a_continuous_scale_every_value_is_a_level():
    values = np.linspace(-10, 10, 2001)
    assert len(common_levels(values, np.ones(2001, np.int64))) == 2001
    # A few common values do not make levels of a scale on which most ratings are something else.
    counts = np.ones(2001, np.int64)
    counts[[0, 1000, 2000]] = 300
    assert len(common_levels(values, counts)) == 2001


def test_worked_by_hand():
    """3.25 is 3 for three numbers of four, 4 for the fourth; what lies on a level or beyond the ends stays there."""
    uniforms = np.array([0.1, 0.24, 0.26, 0.9])
    assert draw_levels(np.full(4, 3.25), STARS, uniforms).tolist() == [4, 4, 3, 3]
    assert draw_levels(np.array([1.0, 3.0, 5.0]), STARS, np.full(3, 0.5)).tolist() == [1, 3, 5]
    assert draw_levels(np.array([0.2, 7.0]), STARS, np.full(2, 0.5)).tolist() == [1, 5]
    assert draw_levels(np.array([2.0, 9.0]), np.array([4], np.float32), np.full(2, 0.5)).tolist() == [4, 4]
    assert draw_levels(np.array([2.0]), np.array([1, 4], np.float32), np.array([0.4])).tolist() == [1]


@given(st.lists(st.floats(1, 5), min_size=1, max_size=30), st.integers(0, 999))
def test_a_value_moves_less_than_one_level(values, seed):
    given_ = np.array(values)
    found = draw_levels(given_, STARS, np.random.default_rng(seed).random(len(values)))
    assert np.isin(found, STARS).all()
    assert (np.abs(found - given_) < 1).all()


def test_the_mean_is_kept():
    rng = np.random.default_rng(0)
    values = rng.uniform(1, 5, 200_000)
    assert draw_levels(values, STARS, rng.random(200_000)).mean() == pytest.approx(values.mean(), abs=0.005)
