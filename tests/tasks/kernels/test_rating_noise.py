"""Test disguising by hand: z-scores, noise from uniform numbers, deviations of filled columns."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from tasks.kernels import rating_noise

PEOPLE = sp.csr_array(
    (np.array([2, 2, 3, 3, 3, 5, 4, 4, 5], np.float32), [0, 1, 3, 4, 5, 7, 0, 2, 1], [0, 6, 8, 8, 9]),
    shape=(4, 8),
)


def test_mean_and_deviation_of_what_was_rated():
    """Profile1 of [Zhang2006], table 1: 2 2 3 3 3 5, mean 3, squares 1+1+4; then 4 4; nothing; a single 5."""
    means, deviations = rating_noise.moments(PEOPLE)
    assert means.tolist() == [3, 4, 0, 5]
    assert deviations.tolist() == [1, 0, 0, 0]


def test_filling_with_the_mean_changes_only_the_deviation():
    means, deviations = rating_noise.moments(PEOPLE, 8)
    assert means.tolist() == [3, 4, 0, 5]
    assert deviations == pytest.approx([np.sqrt(6 / 8), 0, 0, 0])


def test_z_scores_by_hand_and_zero_for_equal_ratings():
    assert rating_noise.z_scores(PEOPLE, *rating_noise.moments(PEOPLE)).tolist() == [
        -1,
        -1,
        0,
        0,
        0,
        2,
        0,
        0,
        0,
    ]


def test_shifted_profiles_have_equal_z_scores():
    """[Zhang2006], table 1: 2 2 3 3 3 5 and 1 1 2 2 2 4."""
    lower = sp.csr_array((PEOPLE.data - 1, PEOPLE.indices, PEOPLE.indptr), shape=PEOPLE.shape)
    first, second = (
        rating_noise.z_scores(people, *rating_noise.moments(people)) for people in (PEOPLE, lower)
    )
    assert first.tolist() == second.tolist()


def test_equal_ratings_have_deviation_zero():
    equal = sp.csr_array((np.full(7, 3.3, np.float32), np.arange(7), [0, 7]), shape=(1, 7))
    assert rating_noise.moments(equal)[1].tolist() == [0]


@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
def test_z_scores_do_not_depend_on_the_block(seed, cut, filled):
    rng = np.random.default_rng(seed)
    people = sp.csr_array(
        np.where(rng.random((13, 40)) < 0.4, rng.uniform(-10, 10, (13, 40)), 0).astype(np.float32)
    )
    entries = 40 if filled else None

    def scores(part):
        return rating_noise.z_scores(part, *rating_noise.moments(part, entries)).tolist()

    whole = scores(people)
    assert whole == scores(sp.csr_array(people[:cut])) + scores(sp.csr_array(people[cut:]))
    _, deviations = rating_noise.moments(people, entries)
    squares = np.bincount(np.repeat(np.arange(13), np.diff(people.indptr)), np.square(whole), 13)
    count = np.full(13, 40) if filled else np.diff(people.indptr)
    assert squares[deviations > 0] == pytest.approx(count[deviations > 0])  # a deviation of 1


def test_noise_has_the_distribution_and_the_amount():
    drawn = (np.arange(100_000) + 0.5) / 100_000
    assert kstest(rating_noise.noise(drawn, "gaussian", 0.7), "norm", (0, 0.7)).statistic < 1e-4
    assert kstest(rating_noise.noise(drawn, "uniform", 0.7), "uniform", (-0.7, 1.4)).statistic < 1e-4
    assert rating_noise.noise(np.array([0.5, 0.5]), "gaussian", np.array([1.0, 9.0])).tolist() == [0, 0]


def test_deviation_of_a_column_filled_with_the_centre():
    """Four people, centre 3. Column 5 1 . . : 2, −2, 0, 0 → mean 0, variance 2. Column 5 . . . : 2 → ½, 1 − ¼."""
    columns = sp.csr_array(
        (np.array([5, 1, 5, 3, 4, 4, 4, 4], np.float32), [0, 1, 0, 2, 0, 1, 2, 3], [0, 2, 3, 4, 8, 8]),
        shape=(5, 4),
    )
    deviations = rating_noise.filled_column_deviations(columns, 3.0)
    assert deviations == pytest.approx([np.sqrt(2), np.sqrt(0.75), 1, 1, 1])  # constant columns: 1


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=20))
def test_stepped_deviation_is_0_to_10_percent_above(deviations):
    deviations = np.array(deviations)
    stepped = rating_noise.stepped_deviations(rating_noise.deviation_steps(deviations))
    assert (stepped >= deviations * (1 - 1e-8)).all()
    assert (stepped <= deviations * 2 ** (1 / 8)).all()


def test_constant_columns_have_deviation_one():
    assert rating_noise.stepped_deviations(rating_noise.deviation_steps(np.array([1.0, 2.0]))).tolist() == [
        1,
        2,
    ]
