"""Compute what an attacker's success shows about epsilon: lower bounds that hold with a stated confidence.

The attacker is given the statistics of one run and answers whether a certain person (the canary) was in the data. From
the shares of right and wrong "yes" follow two bounds. The first assumes nothing but the definition of (epsilon,
delta)-differential privacy. The second uses that the mechanism adds Gaussian noise, so that its trade-off between the
two errors is that of two normal distributions mu apart ([Dong2022], definition 3 and corollary 2.13); it is much nearer
to the truth with few trials ([Nasr2023], section 4).

Each bound holds for one person although the canary may be several equal people: of g people, a mechanism that is
mu-Gaussian for one is g·mu-Gaussian ([Dong2022], theorem 2.14), and one that is (epsilon, delta)-private for one is
(g·epsilon, delta·(e^(g·epsilon) − 1)/(e^epsilon − 1))-private.
"""

import math
from dataclasses import dataclass

from scipy.optimize import brentq
from scipy.stats import beta, norm

LARGEST_EPSILON = 200.0


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at this epsilon of a mechanism whose two worlds are two normal distributions mu apart
    ([Dong2022], corollary 2.13)."""
    if mu <= 0:
        return 0.0
    above = norm.logcdf(-epsilon / mu + mu / 2)
    below = epsilon + norm.logcdf(-epsilon / mu - mu / 2)
    return max(0.0, math.exp(above) - math.exp(min(below, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at this delta of the same mechanism."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if gaussian_delta(mu, LARGEST_EPSILON) > delta:
        return LARGEST_EPSILON
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, LARGEST_EPSILON))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-private: the inverse of `gaussian_epsilon`."""
    high = 1.0
    while gaussian_epsilon(high, delta) < epsilon:
        high *= 2
    return float(brentq(lambda mu: gaussian_epsilon(mu, delta) - epsilon, 0.0, high))


@dataclass(frozen=True)
class Answers:
    """Hold how often the attacker answered "the canary is there": when it was, and when it was not."""

    with_canary: int
    called_with: int
    without: int
    called_without: int

    def rates(self, error: float) -> tuple[float, float]:
        """Return a lower bound of the share of true and an upper bound of the share of false "yes" (Clopper and
        Pearson, [ClopperPearson1934]); both hold together except with this chance of error."""
        hits, false = self.called_with, self.called_without
        least = beta.ppf(error / 2, hits, self.with_canary - hits + 1) if hits else 0.0
        most = beta.isf(error / 2, false + 1, self.without - false) if false < self.without else 1.0
        return float(least), float(most)

    @property
    def reversed(self) -> "Answers":
        """The same with the two worlds exchanged, "no" for "yes": both directions are promised."""
        return Answers(
            self.without, self.without - self.called_without,
            self.with_canary, self.with_canary - self.called_with,
        )  # fmt: skip


def least_mu(answers: Answers, copies: int, error: float) -> float:
    """Return a lower bound of mu for one person, from a canary of so many equal people."""
    true, false = answers.rates(error)
    if true <= 0 or false >= 1:
        return 0.0
    return max(0.0, float(norm.ppf(true) - norm.ppf(false)) / copies)


def least_epsilon(answers: Answers, copies: int, delta: float, error: float) -> float:
    """Return a lower bound of epsilon for one person that assumes nothing about the noise."""
    # The two rates of one direction are those of the other, so that both directions are covered by one event.
    true, false = answers.rates(error)
    return max(
        _smallest(true, false, copies, delta),
        _smallest(1 - false, 1 - true, copies, delta),
    )


def _smallest(true: float, false: float, copies: int, delta: float) -> float:
    """Return the smallest epsilon that allows a share `true` of hits beside a share `false` of false alarms."""

    def excess(epsilon: float) -> float:
        together = min(copies * epsilon, 600.0)
        several = copies if epsilon < 1e-12 else math.expm1(together) / math.expm1(min(epsilon, 600.0))
        return true - math.exp(together) * false - delta * several

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, LARGEST_EPSILON)) if excess(LARGEST_EPSILON) < 0 else LARGEST_EPSILON
