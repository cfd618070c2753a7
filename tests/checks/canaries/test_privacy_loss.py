"""Test the conversions between what an attacker achieves and epsilon, by hand and against exact mechanisms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from checks.canaries.privacy_loss import (
    Answers,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    least_epsilon,
    least_mu,
)


def test_delta_is_the_area_between_two_normals():
    """Delta at epsilon is ∫ max(0, p − e^ε q); here by numerical integration."""
    x = np.linspace(-12, 14, 2_000_001)
    for mu, epsilon in ((0.5, 0.3), (1.0, 1.0), (2.0, 4.0)):
        gap = np.maximum(0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))
        assert gaussian_delta(mu, epsilon) == pytest.approx(float(np.trapezoid(gap, x)), rel=1e-5)


@given(st.floats(0.05, 6), st.sampled_from([1e-6, 1e-5, 1e-3]))
def test_mu_and_epsilon_invert_each_other(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 1e-6:
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-5)


def test_gaussian_epsilon_is_below_the_simple_bound_of_zcdp():
    """rho-zCDP implies epsilon = rho + 2·sqrt(rho·log(1/delta)); the Gaussian mechanism itself has less."""
    for rho in (0.01, 0.2, 2.0):
        simple = rho + 2 * math.sqrt(rho * math.log(1e5))
        assert 0.5 * simple < gaussian_epsilon(math.sqrt(2 * rho), 1e-5) < simple


def test_rates_by_hand():
    """With all of 100 right, the lower bound at one-sided 2.5 % is 0.025^(1/100)."""
    least, most = Answers(100, 100, 100, 0).rates(0.05)
    assert least == pytest.approx(0.025 ** (1 / 100))
    assert most == pytest.approx(1 - 0.025 ** (1 / 100))
    assert Answers(10, 0, 10, 10).rates(0.05) == (0.0, 1.0)


def test_bounds_by_hand():
    answers = Answers(100, 100, 100, 0)
    true, false = answers.rates(0.05)
    assert least_mu(answers, 1, 0.05) == pytest.approx(norm.ppf(true) - norm.ppf(false))
    assert least_mu(answers, 4, 0.05) == pytest.approx((norm.ppf(true) - norm.ppf(false)) / 4)
    # true = e^ε·false + δ
    assert least_epsilon(answers, 1, 1e-5, 0.05) == pytest.approx(math.log((true - 1e-5) / false), abs=1e-6)
    assert least_epsilon(answers, 2, 1e-9, 0.05) == pytest.approx(math.log(true / false) / 2, abs=1e-4)


def test_an_attacker_without_success_shows_nothing():
    for answers in (Answers(100, 50, 100, 50), Answers(100, 0, 100, 0), Answers(100, 100, 100, 100)):
        assert least_mu(answers, 1, 0.05) == 0.0
        assert least_epsilon(answers, 1, 1e-5, 0.05) == 0.0


def test_both_directions_count():
    """A "no" that is certain shows as much as a "yes"."""
    rare_yes = Answers(1000, 200, 1000, 0)
    rare_no = Answers(1000, 1000, 1000, 800)
    assert least_epsilon(rare_yes, 1, 1e-5, 0.05) == pytest.approx(
        least_epsilon(rare_no, 1, 1e-5, 0.05), rel=1e-6
    )


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_bounds_hold_as_often_as_they_state(mu):
    """Over many audits of two normal distributions, the bound exceeds the true mu in at most 5 %."""
    draw, audits, n, threshold = np.random.default_rng(1), 2_000, 200, mu / 2
    called = draw.binomial(n, norm.sf(threshold - mu), audits)
    false = draw.binomial(n, norm.sf(threshold), audits)
    wrong = sum(
        least_mu(Answers(n, int(a), n, int(b)), 1, 0.05) > mu for a, b in zip(called, false, strict=True)
    )
    assert wrong <= 0.05 * audits
