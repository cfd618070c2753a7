"""Convert between zero-concentrated and (ε, δ) differential privacy, and split a budget over releases.

Every Gaussian mechanism here is accounted for in ρ-zCDP ([Bun2016]), which composes by addition. The conversion is the
tightest known one that needs ρ alone ([Canonne2020], Corollary 13):

    δ = inf over α > 1 of  exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α

Any α gives a valid δ, so a search that stops early costs accuracy and never protection. The proofs are in
docs/proofs/dp-synthetic.md. Plain Python: the configuration and the ledger may import it.
"""

import math
from dataclasses import dataclass

# A bound on the relative error of the floating-point evaluation; results are rounded to the safe side by it.
ROUNDING = 1e-9
HALVINGS = 64
LEAST_ORDER = 1 + 1e-6  # α − 1 is divided by

# The share of δ kept for what may fail with some probability: an unseen item that passes the threshold of the choice
# of items, and the distance of the sampler from the exact distribution. ρ hardly depends on δ, so a tenth costs ε about
# one per cent.
FAILURE_SHARE = 0.1


@dataclass(frozen=True)
class Allowance:
    """Hold what one release may spend: ρ by Gaussian noise, and a probability of failure (approximate zCDP)."""

    rho: float
    failure: float


def delta_of(rho: float, epsilon: float) -> float:
    """Return the smallest δ for which ρ-zCDP implies (ε, δ)-differential privacy, rounded up."""
    _require(rho >= 0 and epsilon >= 0, "rho and epsilon must not be negative")
    if rho == 0:
        return 0.0
    low, high = LEAST_ORDER, (epsilon + 1) / (2 * rho) + 2
    for _ in range(HALVINGS):
        order = (low + high) / 2
        # The derivative of the logarithm of the bound, without the parts that cancel.
        if (2 * order - 1) * rho - epsilon + math.log1p(-1 / order) < 0:
            low = order
        else:
            high = order
    exponent = (high - 1) * (high * rho - epsilon) + high * math.log1p(-1 / high) - math.log(high - 1)
    return min(1.0, math.exp(min(exponent, 0.0)) * (1 + ROUNDING))


def epsilon_of(rho: float, delta: float) -> float:
    """Return the smallest ε for which ρ-zCDP implies (ε, δ)-differential privacy, rounded up."""
    _require(rho >= 0 and 0 < delta < 1, "rho must not be negative and delta must be in (0, 1)")
    if rho == 0:
        return 0.0
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta))  # [Bun2016], Proposition 1.3
    if delta_of(rho, high) > delta:
        high *= 1 + 1e-6  # the bound above without the rounding of delta_of
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if delta_of(rho, middle) <= delta:
            high = middle
        else:
            low = middle
    return high * (1 + ROUNDING)


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which ρ-zCDP implies (ε, δ)-differential privacy, rounded down."""
    _require(epsilon > 0 and 0 < delta < 1, "epsilon must be positive and delta must be in (0, 1)")
    low, high = 0.0, epsilon + 1
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low * (1 - ROUNDING)


def allowance(epsilon: float, delta: float, releases: int = 1) -> Allowance:
    """Return what each of `releases` may spend so that all together satisfy (ε, δ)-differential privacy.

    ρ and the probabilities of failure add up; a composition of δ₀-approximate ρ-zCDP satisfies (ε, δ₁ + δ₀) where
    ρ-zCDP implies (ε, δ₁).
    """
    _require(releases >= 1, "there must be at least one release")
    _require(0 < delta < 1, "delta must be in (0, 1)")
    # Rounded down, so that adding the shares up again does not exceed the budget.
    failure = delta * FAILURE_SHARE / releases * (1 - ROUNDING)
    rho = rho_of(epsilon, delta * (1 - FAILURE_SHARE)) / releases * (1 - ROUNDING)
    return Allowance(rho, failure)


def spent_epsilon(rho: float, failure: float, delta: float) -> float:
    """Return the ε of everything spent so far, at a δ that includes the probabilities of failure; inf beyond it."""
    left = delta - failure
    return epsilon_of(rho, left) if left > 0 else math.inf


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
