"""Test the conversions between zCDP and (ε, δ), against the exact privacy of the Gaussian mechanism and by hand."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.privacy_accounting import (
    FAILURE_SHARE,
    allowance,
    delta_of,
    epsilon_of,
    rho_of,
    spent_epsilon,
)

RHO = st.floats(1e-5, 20)
EPSILON = st.floats(0.01, 20)
DELTA = st.floats(1e-12, 1e-3)


def formula(rho: float, epsilon: float, order: float) -> float:
    """Return the bound for one order, written as in [Canonne2020], Corollary 13."""
    return math.exp((order - 1) * (order * rho - epsilon)) / (order - 1) * (1 - 1 / order) ** order


def exact_gaussian(rho: float, epsilon: float) -> float:
    """Return the exact δ of the Gaussian mechanism with this ρ ([Balle2018], Theorem 8)."""
    shift = math.sqrt(2 * rho)  # sensitivity over standard deviation
    normal = NormalDist().cdf
    return normal(shift / 2 - epsilon / shift) - math.exp(epsilon) * normal(-shift / 2 - epsilon / shift)


class TestConversion:
    def test_known_case(self):
        """ρ = 0.1 at δ = 1e-6: the minimum of the formula over a fine grid of orders, and below the simple bound."""
        found = epsilon_of(0.1, 1e-6)
        grid = [1 + 0.01 * step for step in range(1, 4000)]
        assert min(formula(0.1, found, order) for order in grid) == pytest.approx(1e-6, rel=1e-3)
        assert found < 0.1 + 2 * math.sqrt(0.1 * math.log(1e6))

    @pytest.mark.parametrize("rho", [0.001, 0.05, 0.5, 3.0])
    @pytest.mark.parametrize("epsilon", [0.5, 3.0, 10.0])
    def test_never_below_the_exact_privacy_of_gaussian_noise(self, rho, epsilon):
        assert delta_of(rho, epsilon) >= exact_gaussian(rho, epsilon)

    @given(RHO, EPSILON)
    def test_no_order_is_better(self, rho, epsilon):
        for order in (1.5, 2.0, 5.0, 20.0, 80.0):
            if (order - 1) * (order * rho - epsilon) < 500:
                assert delta_of(rho, epsilon) <= min(1, formula(rho, epsilon, order)) * (1 + 1e-6)

    @settings(max_examples=30, deadline=None)
    @given(EPSILON, DELTA)
    def test_rho_keeps_the_budget(self, epsilon, delta):
        rho = rho_of(epsilon, delta)
        assert rho > 0
        assert delta_of(rho, epsilon) <= delta
        assert epsilon_of(rho, delta) <= epsilon * (1 + 1e-6)
        assert epsilon_of(rho, delta) >= epsilon * (1 - 1e-4)
        assert delta_of(rho * 1.0001, epsilon) > delta

    @settings(max_examples=30, deadline=None)
    @given(RHO, RHO, DELTA)
    def test_more_rho_is_more_epsilon(self, one, other, delta):
        low, high = sorted((one, other))
        assert epsilon_of(low, delta) <= epsilon_of(high, delta) * (1 + 1e-6)

    def test_nothing_spent(self):
        assert (delta_of(0, 1), epsilon_of(0, 1e-5)) == (0, 0)

    def test_refuses_nonsense(self):
        for call in (
            lambda: rho_of(0, 1e-5),
            lambda: rho_of(1, 0),
            lambda: epsilon_of(-1, 1e-5),
            lambda: epsilon_of(1, 1),
            lambda: delta_of(1, -1),
            lambda: allowance(1, 1e-5, 0),
        ):
            with pytest.raises(ValueError, match="must"):
                call()


class TestAllowance:
    @pytest.mark.parametrize("releases", [1, 3, 12, 365])
    def test_all_releases_together_keep_the_budget(self, releases):
        one = allowance(3, 1e-5, releases)
        rho, failure = sum([one.rho] * releases), sum([one.failure] * releases)
        assert failure <= 1e-5 * FAILURE_SHARE
        assert 3 * 0.999 < spent_epsilon(rho, failure, 1e-5) <= 3

    def test_one_release_too_many_exceeds_it(self):
        one = allowance(3, 1e-5, 4)
        assert spent_epsilon(5 * one.rho, 5 * one.failure, 1e-5) > 3

    def test_failures_beyond_delta_are_infinite(self):
        assert spent_epsilon(0.1, 1e-5, 1e-5) == math.inf
