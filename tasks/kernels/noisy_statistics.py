"""Measure ratings with discrete Gaussian noise: everything of them that method dp-synthetic ever uses.

The mechanism of docs/proofs/dp-synthetic.md, Algorithm 1. `noisy_statistics` runs it on a matrix in memory; the step
`statistics` runs the same `measure` on sums of blocks. What comes out is differentially private, so nothing after it
needs care.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from tasks.kernels import bounded_sums as bounded
from tasks.kernels.discrete_gaussian import (
    DISTANCE,
    WORDS_PER_DRAW,
    DiscreteGaussian,
    discrete_gaussian,
)
from tasks.kernels.privacy_accounting import spent_epsilon

# The parts of totals_share: how many people, how many items they have, how they rate.
TOTALS = {"users": 0.25, "lengths": 0.35, "means": 0.2, "levels": 0.2}
TABLE_VARIANCE = 2**28  # resolutions are chosen so that tables stay below it: 420,000 entries
LARGEST_EPSILON = 20.0  # that a budget may have (tasks/config/budget.py)
MOST_DRAWS = 2**32
FEWEST_ITEMS, MOST_ITEMS = 50, 2000
ITEMS_PER_ROOT = 10.0  # chosen items for each square root of the signal N·√ρ

Words = Callable[
    [str, int], np.ndarray
]  # (part, count) → words of 64 random bits, independent for different parts


@dataclass(frozen=True)
class Settings:
    """Hold the public settings of the mechanism. `rho` and `failure` are what may be spent in all."""

    rho: float
    failure: float
    epsilon: float  # of the whole budget, for the price of the sampler's distance
    scale: tuple[float, float]
    items: int | None = None
    row_weight: int = 10
    choice_share: float = 0.2
    totals_share: float = 0.02
    ratings_share: float = 0.08


@dataclass(frozen=True)
class Noise:
    """Hold the noise of one part: σ², and the ρ it spends."""

    variance: int
    rho: float


@dataclass(frozen=True)
class Statistics:
    """Hold what was measured: noisy integers and the public numbers that say how to read them."""

    columns: np.ndarray  # positions of the chosen items among the source's
    counts: np.ndarray  # their noisy sums in the choice
    users: int
    lengths: np.ndarray
    means: np.ndarray
    levels: np.ndarray
    pairs: np.ndarray  # symmetric
    ratings: np.ndarray
    limits: bounded.Limits
    noise: dict[str, Noise]
    failure: float

    @property
    def rho(self) -> float:
        """Return the ρ spent by all parts together."""
        return sum(part.rho for part in self.noise.values())

    def spent(self, delta: float) -> dict[str, Any]:
        """Return what was spent, in ρ and converted to (ε, δ)."""
        return {
            "rho": self.rho,
            "failure": self.failure,
            "epsilon": spent_epsilon(self.rho, self.failure, delta),
            "delta": delta,
            "parts": {name: part.rho for name, part in self.noise.items()},
        }


class ExactSums(Protocol):
    """Represent the data: it gives exact sums, to which `measure` adds noise at once."""

    @property
    def users(self) -> int:
        """Return the number of people."""
        ...

    def choice_sums(self) -> np.ndarray:
        """Return every item's sum for the choice of items."""
        ...

    def sums(self, columns: np.ndarray, limits: bounded.Limits) -> bounded.Sums:
        """Return all sums over the chosen items."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Represent data that are one matrix, a row per person."""

    matrix: sp.csr_array

    @property
    def users(self) -> int:
        """Return the number of people, those without ratings included."""
        return self.matrix.shape[0]

    def choice_sums(self) -> np.ndarray:
        """Return every item's sum for the choice of items."""
        return bounded.choice_sums(self.matrix)

    def sums(self, columns: np.ndarray, limits: bounded.Limits) -> bounded.Sums:
        """Return all sums over the chosen items."""
        return bounded.sums(self.matrix, columns, limits)


class NothingChosenError(ValueError):
    """Report that too few items stand out of the noise; differentially private, as it follows from noisy counts."""


def noisy_statistics(matrix: sp.csr_array, settings: Settings, words: Words) -> Statistics:
    """Run the mechanism on a matrix of ratings, a row per person and a stored value per rating."""
    return measure(InMemory(matrix), settings, words)


def measure(exact: ExactSums, settings: Settings, words: Words) -> Statistics:
    """Choose items and measure all sums over them, each with noise as its part of the budget allows."""
    sampler = _Sampler(settings, words)
    users = int(sampler.noisy("users", np.array([exact.users]), 1)[0])
    columns, counts = _choose(exact.choice_sums(), sampler, _items_wanted(settings, users))
    limits = _limits(settings, len(columns), sampler)
    found = exact.sums(columns, limits)
    upper = np.triu_indices(len(columns))
    pairs = np.zeros((len(columns), len(columns)), np.int64)
    of_pairs = bounded.pairs_bound(len(columns), limits.pairs, limits.row_weight)
    pairs[upper] = sampler.noisy("pairs", found.pairs[upper], of_pairs)
    of_ratings = bounded.ratings_bound(len(columns), limits.ratings, limits.row_weight)
    return Statistics(
        columns=columns,
        counts=counts,
        users=max(users, 1),
        lengths=sampler.noisy("lengths", found.lengths, 1),
        means=sampler.noisy("means", found.means, 1),
        levels=sampler.noisy("levels", found.levels, limits.levels**2),
        pairs=pairs + np.triu(pairs, 1).T,
        ratings=sampler.noisy("ratings", found.ratings, of_ratings),
        limits=limits,
        noise=sampler.noise,
        failure=sampler.failure(),
    )


def shares(settings: Settings) -> dict[str, float]:
    """Return the share of ρ of every part; they add up to 1."""
    totals = {name: settings.totals_share * part for name, part in TOTALS.items()}
    rest = 1 - settings.choice_share - settings.totals_share - settings.ratings_share
    return {**totals, "choice": settings.choice_share, "ratings": settings.ratings_share, "pairs": rest}


@lru_cache(maxsize=512)
def variance_for(bound: int, rho: float) -> int:
    """Return the least integer σ² with bound/(2σ²) ≤ ρ: then noise of this variance satisfies ρ-zCDP."""
    return max(1, math.ceil(Fraction(bound) / (2 * Fraction(rho))))


class _Sampler:
    """Add noise to sums, and keep account of it."""

    def __init__(self, settings: Settings, words: Words) -> None:
        self.rho_of = {name: share * settings.rho for name, share in shares(settings).items()}
        self.settings, self.words = settings, words
        self.noise: dict[str, Noise] = {}
        self.draws = 0
        # Most of the probability of failure for unseen items, the rest for the distance of the sampler.
        self.of_choice = 0.9 * settings.failure

    def table(self, part: str, bound: int) -> DiscreteGaussian:
        """Return the distribution of a part's noise for a squared sensitivity."""
        return discrete_gaussian(variance_for(bound, self.rho_of[part]))

    def noisy(self, part: str, exact: np.ndarray, bound: int) -> np.ndarray:
        """Return integers with noise; once for each part."""
        if part in self.noise:
            raise ValueError(f"part '{part}' was measured before; its budget is spent")
        table = self.table(part, bound)
        self.noise[part] = Noise(table.variance, bound / (2 * table.variance))
        self.draws += len(exact)
        # Named with the variance: the same noise at another variance would give the sums away by subtraction.
        words = self.words(f"{part} {table.variance}", WORDS_PER_DRAW * len(exact))
        return exact.astype(np.int64) + table.draw(words)

    def failure(self) -> float:
        """Return the probability of failure: of the choice, and the price of the distance of all draws (Lemma 5).

        The price is that of MOST_DRAWS, since the true number follows from how many items there are, and of the
        largest epsilon that a budget may have: the limit may be raised after this release.
        """
        if self.draws > MOST_DRAWS:
            raise ValueError(f"{self.draws} draws of noise are more than {MOST_DRAWS}")
        of_draws = MOST_DRAWS * DISTANCE * (1 + math.exp(LARGEST_EPSILON))
        if self.of_choice + of_draws > self.settings.failure:
            raise ValueError("delta is too small; raise it, or let fewer releases share the budget")
        return self.of_choice + of_draws


def _items_wanted(settings: Settings, users: int) -> int:
    """Return how many items to choose at most: more where more people or less noise make more pairs visible."""
    if settings.items is not None:
        return settings.items
    signal = max(users, 1) * math.sqrt(settings.rho * shares(settings)["pairs"])
    return int(np.clip(round(ITEMS_PER_ROOT * math.sqrt(signal)), FEWEST_ITEMS, MOST_ITEMS))


def _choose(exact: np.ndarray, sampler: _Sampler, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the items whose noisy sum is above the threshold, at most `wanted` of them, and these sums.

    Only items that somebody has are looked at, which depends on the data; the threshold is so high that items of one
    person alone pass it with probability at most `of_choice` ([Gopi2020], Lemma 2 of the proof).
    """
    seen = np.flatnonzero(exact > 0)
    bound = bounded.CHOICE_RESOLUTION**2
    threshold = unseen_threshold(sampler.table("choice", bound), sampler.of_choice)
    noisy = sampler.noisy("choice", exact[seen], bound)
    passed = np.flatnonzero(noisy > threshold)
    best = passed[np.argsort(-noisy[passed], kind="stable")[:wanted]]
    if len(best) < 2:
        raise NothingChosenError("fewer than two items stand out of the noise")
    best = np.sort(best)
    return seen[best], noisy[best]


def unseen_threshold(table: DiscreteGaussian, probability: float) -> int:
    """Return a threshold that the items of one person alone pass with at most this probability, however many.

    With weight w each, one person has at most ⌊S²/w²⌋ items; each passes with P[noise > threshold − w], and the sum of
    these probabilities (union bound) must be small enough.
    """
    return _unseen_threshold(table.variance, probability)


@lru_cache(maxsize=16)  # the audit runs the mechanism thousands of times with the same settings
def _unseen_threshold(variance: int, probability: float) -> int:
    table = discrete_gaussian(variance)
    largest = bounded.CHOICE_RESOLUTION
    return max(
        weight - 1 + table.least_with_tail(probability / (largest**2 // weight**2))
        for weight in range(1, largest + 1)
    )


def _limits(settings: Settings, items: int, sampler: _Sampler) -> bounded.Limits:
    """Return the limits of contributions; resolutions are as fine as tables of bounded size allow."""

    def finest(part: str, bound_at: Callable[[int], int]) -> int:
        resolution = 1024
        while resolution > 1 and variance_for(bound_at(resolution), sampler.rho_of[part]) > TABLE_VARIANCE:
            resolution //= 2
        return resolution

    weight = settings.row_weight
    return bounded.Limits(
        row_weight=weight,
        scale=settings.scale,
        pairs=finest("pairs", lambda s: bounded.pairs_bound(items, s, weight)),
        ratings=finest("ratings", lambda s: bounded.ratings_bound(items, s, weight)),
        levels=finest("levels", lambda s: s**2),
        edges=bounded.length_edges(items),
    )
