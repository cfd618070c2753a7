"""Test half steps from a prior: worked cases, what a prior is worth, plain least squares, noise, balance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.als import BIAS_PRIOR, PRIOR, half_step
from tasks.kernels.prior_steps import (
    Sums,
    Worth,
    balance,
    deviates,
    deviation,
    fading_start,
    hidden_deviation,
    phantoms_of,
    rating_variance,
    sum_up,
    worth_of_prior,
)
from tasks.kernels.public_prior import Prior

DEFENCES = {"phantoms": 40, "level_only_below": 50, "span": 4.0}


def known(items, cohorts=(), rank=1):
    return Prior(
        np.zeros(items, np.float32), np.ones((items, rank), np.float32), np.ones(items, bool), cohorts
    )


def some_sums(rng, raters=30, rank=3):
    features = rng.standard_normal((raters, rank)).astype(np.float32)
    left, offsets = rng.standard_normal(raters).astype(np.float32), np.zeros(raters, np.float32)
    sums = sum_up(np.array([0, raters]), np.arange(raters), left, features, offsets)
    return sums, features, left, offsets


def test_worked_sums():
    features = np.array([[2], [3]], np.float32)
    offsets = np.array([1, 0], np.float32)
    sums = sum_up(np.array([0, 2, 2]), np.array([0, 1]), np.array([2, 5], np.float32), features, offsets)
    assert sums.gram[0].tolist() == [[13, 5], [5, 2]]
    assert sums.left[0].tolist() == [17, 6]  # 2 · (2 − 1) + 3 · 5, (2 − 1) + 5
    assert not sums.gram[1].any()


def test_worked_worth():
    # 199.5 of 995 rated the item: a fifth. 80 of 400 earlier people are worth 80² / (80 + 40) without noise.
    worth = worth_of_prior(known(1, (400,)), np.array([199.5]), 995, **DEFENCES)
    assert worth.factors == pytest.approx([6400 / 120])
    # The noise in their sum is 8 · √(20/80) = 4: the mean has a variance of 0.8/80 + 16/6400.
    assert worth.levels == pytest.approx([1 / 0.15 + 1 / (0.01 + 0.0025)])


def test_few_raters_have_more_phantoms_or_do_not_count():
    assert phantoms_of(np.array([19.0, 49.0, 50.0]), 40, 50).tolist() == [140, 140, 40]
    assert deviates(np.array([19, 20, 50]), 50).tolist() == [False, True, True]
    # 30 of 150 earlier people: 900 / (30 + 140). 15 of 75 do not count.
    half = worth_of_prior(known(1, (150, 75)), np.array([199.5]), 995, **DEFENCES)
    assert half.factors == pytest.approx([900 / 170])


def test_unknown_items_have_a_prior_that_is_worth_nothing():
    prior = Prior(np.zeros(2, np.float32), np.ones((2, 1), np.float32), np.array([True, False]), (1000,))
    worth = worth_of_prior(prior, np.array([100, 100]), 500, **DEFENCES)
    assert worth.factors[0] > 0
    assert worth.levels[0] > 0
    assert worth.factors[1] == worth.levels[1] == 0


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(50, 5000), max_size=4), st.integers(50, 5000), st.integers(3, 400))
def test_a_further_cohort_never_makes_a_prior_worth_less(cohorts, further, raters):
    before, after = (
        worth_of_prior(known(1, tuple(own)), np.array([raters]), 400, **DEFENCES)
        for own in (cohorts, [*cohorts, further])
    )
    assert after.factors[0] >= before.factors[0]
    assert after.levels[0] > before.levels[0]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_a_prior_that_is_worth_nothing_gives_the_usual_half_step(seed, raters):
    sums, features, left, offsets = some_sums(np.random.default_rng(seed), raters)
    worth = Worth(np.zeros(1), np.zeros(1))
    usual = half_step(np.array([0, raters]), np.arange(raters), left, features, offsets, 0.04)
    assert deviation(sums, worth, np.eye(3), 0.04, 0.8) == pytest.approx(usual, abs=1e-4)


def test_worth_is_as_good_as_raters_who_agree_with_the_prior():
    """κ raters with the moments Σ, of whom the prior is right, change as much as a worth of κ."""
    rng = np.random.default_rng(1)
    sums, *_ = some_sums(rng)
    moments, kappa = np.diag([1.0, 2.0, 0.5]), 12.0
    agreeing = sums.gram.copy()
    agreeing[0, :3, :3] += kappa * moments + 0.04 * kappa * np.eye(3)
    with_worth = deviation(sums, Worth(np.array([kappa]), np.zeros(1)), moments, 0.04, 0.8)
    with_raters = deviation(Sums(agreeing, sums.left), Worth(np.zeros(1), np.zeros(1)), moments, 0.04, 0.8)
    assert with_worth == pytest.approx(with_raters)


def test_worked_hidden_deviation():
    # One direction, no offset by tastes: A = 10 of 10 raters, 30 phantoms, so w = 1/4; noise 2 in a sum of 6.
    sums = Sums(np.array([[[10.0, 0.0], [0.0, 10.0]]]), np.array([[6.0, 5.0]]))
    worth, moments = Worth(np.array([20.0]), np.array([3.0])), np.array([[0.5]])
    given = (sums, worth, moments, 0.04, 0.8, np.array([[2.0]]), np.array([30.0]))
    moved = hidden_deviation(*given, np.array([True]))
    assert moved[0, 0] == pytest.approx(0.25 * 8 / (0.25 * 10 + 20 * 0.5 + 0.04 * (10 + 20 + PRIOR)))
    assert moved[0, 1] == pytest.approx(5 / (10 + 0.04 * BIAS_PRIOR))
    assert hidden_deviation(*given, np.array([False]))[0, 0] == 0


def test_levels_are_what_hidden_factors_leave_over():
    sums, features, left, _ = some_sums(np.random.default_rng(2))
    worth, noise = Worth(np.array([5.0]), np.array([4.0])), np.array([[1.0, -2.0, 0.5]])
    hidden = hidden_deviation(sums, worth, np.eye(3), 0.04, 0.8, noise, np.array([40.0]), np.array([True]))
    over = (left - features @ hidden[0, :3]).sum()
    assert hidden[0, 3] == pytest.approx(over / (30 + 0.04 * BIAS_PRIOR), rel=1e-5)


def test_an_item_with_a_good_prior_stays_there_although_the_noise_is_large():
    sums, *_ = some_sums(np.random.default_rng(3))
    noise = np.full((1, 3), 30.0)
    given = (np.eye(3), 0.04, 0.8, noise, np.array([40.0]), np.array([True]))
    little, much = (
        np.abs(hidden_deviation(sums, Worth(np.array([kappa]), np.zeros(1)), *given)[0, :3]).max()
        for kappa in (0.0, 5_000.0)
    )
    assert little > 0.3
    assert much < 0.005


def test_balance_ends_where_penalties_are_equal():
    rng = np.random.default_rng(4)
    prior = known(20, (300,), rank=2).stretched(np.array([3.0, 0.2]))
    users = rng.standard_normal((100, 2)).astype(np.float32)
    ratings, counts = rng.integers(5, 50, 100), rng.integers(3, 90, 20)
    by = balance(prior, users, ratings, counts)
    stretched, shortened = prior.stretched(by), users / by
    times = 4  # 400 people with those before, in a cohort of 100
    people = times * ((ratings + PRIOR) @ shortened**2)
    assert (times * counts + PRIOR) @ stretched.factors.astype(float) ** 2 == pytest.approx(people, rel=1e-3)
    assert balance(prior.stretched(np.zeros(2)), users, ratings, counts).tolist() == [1, 1]


def test_random_starts_fade():
    start = np.ones((3, 2), np.float32)
    assert fading_start(start, np.array([0.0, 50.0, 150.0]))[:, 0].tolist() == [1, 0.5, 0.25]


def test_variance_goes_with_the_square_of_the_scale():
    assert rating_variance(4.0) == 0.8
    assert rating_variance(20.0) == pytest.approx(20.0)


def test_all_others_known_one_opinion_is_hidden_by_the_noise_of_few_raters():
    """The area of an attacker who knows 19 of 20 raters and the last one's taste is about 0.65 on average."""
    rng, rank = np.random.default_rng(0), 8
    tastes = rng.standard_normal((4_000, rank))
    opinion = rng.choice([-1.0, 1.0], 4_000)
    phantoms = int(phantoms_of(np.array([20.0]), 40, 50)[0])
    noise = rng.standard_normal((4_000, rank)) * np.sqrt(phantoms * rating_variance(4.0))
    score = ((tastes * opinion[:, None] + noise) * tastes).sum(axis=1)
    liked, disliked = score[opinion > 0], score[opinion < 0]
    area = (liked[:, None] > disliked).mean()
    assert 0.6 < area < 0.67
