"""Measure balanced precision ([RFPP], equation 3) and find the cut-off at which no information is worth 0.5.

BPre = c·ρ₁ + (1 − c)·ρ₀ with ρ the recall of each class and c = −log₂ p / (−log₂ p − log₂(1 − p)). With p = 0.28 the
answer "of the class" for every person has ρ₁ = 1, ρ₀ = 0 and BPre = c = 0.79 without any knowledge. So an inferrer may
not choose its own cut-off: it is where both classes' recalls are equal among the people tested (docs/decisions/0013
explains why not among others). There c does not matter, and an inferrer without knowledge has 0.5.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from checks.stats import Risk, clustered, interval_z, weighted_sum, wilson

GUESS = 0.5


def rarity_weight(share: float) -> float:
    """Return c of equation 3 for a class of this share of the people: the rarer class counts more."""
    one, other = -math.log2(share), -math.log2(1 - share)
    return one / (one + other)


@dataclass(frozen=True)
class Cut:
    """Represent a cut-off: people above `value` are assigned to the class; of those exactly at it, the share `at`."""

    value: float
    at: float

    def called(self, scores: np.ndarray) -> np.ndarray:
        """Return 1 for people assigned to the class, 0 for others, and a probability for scores that tie with the
        cut-off."""
        return np.where(scores > self.value, 1.0, np.where(scores == self.value, self.at, 0.0))


def equal_recall_cut(scores: np.ndarray, inside: np.ndarray) -> Cut:
    """Return the cut-off at which the recall of the class equals the recall of the others."""
    values, place = np.unique(scores, return_inverse=True)
    of_class, others = (
        np.bincount(place[who], minlength=len(values)) / max(1, who.sum()) for who in (inside, ~inside)
    )
    above = 1 - np.cumsum(of_class)  # share of the class above each value
    up_to = np.cumsum(others)  # share of the others up to each value
    # Lowering the cut-off raises one recall and lowers the other: the last value from which on it is still too high.
    first = int(np.argmax(up_to >= above - 1e-12))
    room = of_class[first] + others[first]
    at = (up_to[first] - above[first]) / room if room > 0 else 0.0
    return Cut(float(values[first]), float(np.clip(at, 0.0, 1.0)))


def call_at_equal_recalls(scores: np.ndarray, inside: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Assign people to the class where the recalls of each fold are equal: what the scores of a fold are worth,
    whatever their scale.

    A person's own value enters only through this one number.
    """
    called = np.zeros(len(scores))
    for fold in np.unique(folds):
        own = folds == fold
        called[own] = equal_recall_cut(scores[own], inside[own]).called(scores[own])
    return called


def call_by_other_folds(scores: np.ndarray, inside: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Assign people to the class as an attacker must, who finds the cut-off for each fold in the others."""
    called = np.zeros(len(scores))
    for fold in np.unique(folds):
        own = folds == fold
        called[own] = equal_recall_cut(scores[~own], inside[~own]).called(scores[own])
    return called


@dataclass(frozen=True)
class BalancedPrecision(Risk):
    """Represent balanced precision as a risk.

    `successes` of `n` people are classified correctly, and `rate` weighs both classes' recalls (of the class, of all
    others), each over its effective number of people. `together` is the mean of both recalls.
    """

    recalls: tuple[Risk, Risk] = (Risk(0, 0), Risk(0, 0))
    together: Risk | None = None
    weight: float = 0.5

    @property
    def rate(self) -> float:
        """The balanced precision."""
        one, other = self.recalls
        return self.weight * one.rate + (1 - self.weight) * other.rate

    @property
    def interval(self) -> tuple[float, float]:
        """Its interval, at the z it was requested for."""
        return self.at(self.z)

    def at(self, z: float) -> tuple[float, float]:
        """Return its interval at another z.

        At a cut-off that was found elsewhere the recalls err independently, and their intervals are combined. A cut-off
        found where recalls are equal makes them err together: what one loses by a cut-off that is too high the other
        gains. What is left is the error of their mean, whatever c is (docs/decisions/0013 has the trial).
        """
        if self.together is not None:
            return wilson(self.rate * self.together.n, self.together.n, z)
        shares = [(recall.successes, recall.n) for recall in self.recalls]
        low, high = weighted_sum(shares, (self.weight, 1 - self.weight), z)
        return max(0.0, low), min(1.0, high)

    @property
    def effective(self) -> int:
        """Number of independent people that would leave it as uncertain."""
        return self.together.n if self.together else sum(recall.n for recall in self.recalls)

    @property
    def guess_upper_bound(self) -> float:
        """The upper bound that a guess would have with as many people: above the threshold, nothing can be shown."""
        one, other = (replace(recall, successes=recall.n / 2) for recall in self.recalls)
        return replace(self, recalls=(one, other)).interval[1]


def measure_balanced_precision(
    called: np.ndarray,
    inside: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    *,
    share: float,
    z: float | None = None,
    found_elsewhere: bool = False,
) -> BalancedPrecision:
    """Measure these answers where this share of all people is of the class; `found_elsewhere`: the cut-off was not
    found where recalls are equal among these people.

    People of one group have one record, and are classified right or wrong together: the recalls are counted with as
    many people as would leave them as uncertain as the differences between groups do (Kish; `clustered`).
    """
    right = np.where(inside, called, 1 - called)
    heavy = weights.astype(np.float64)
    for who in (inside, ~inside):
        heavy[who] *= who.sum() / max(heavy[who].sum(), 1e-12)
    recalls = tuple(_effective(right[who], heavy[who], groups[who]) for who in (inside, ~inside))
    together = None
    if not found_elsewhere:
        # Both classes count alike: as many people in all as would leave a mean of two recalls as uncertain.
        count, others = max(1, inside.sum()), max(1, (~inside).sum())
        alike = heavy * np.where(inside, others, count) * 2 / (count + others)
        together = _effective(right, alike, groups)
    return BalancedPrecision(
        float(right.sum()), len(right), GUESS,
        recalls=(recalls[0], recalls[1]), together=together, weight=rarity_weight(share),
        z=interval_z() if z is None else z,
    )  # fmt: skip


def _effective(right: np.ndarray, weights: np.ndarray, groups: np.ndarray) -> Risk:
    """Return the share classified correctly, over the effective number of people."""
    _, group = np.unique(groups, return_inverse=True)
    if group.max(initial=-1) + 1 == len(groups) and not np.ptp(
        weights
    ):  # one person per group, and all of equal weight
        return Risk(float(right.sum()), len(right), GUESS)
    found = clustered(np.bincount(group, weights * right), np.bincount(group, weights), GUESS)
    count = max(1, min(found.n, int(weights.sum() + 1e-9)))
    return Risk(found.rate * count, count, GUESS)


def area_under_curve(scores: np.ndarray, inside: np.ndarray) -> float:
    """Return the chance that a member of the class scores higher than another person, ties counting half."""
    count = int(inside.sum())
    pairs = count * (len(inside) - count)
    ranks = rankdata(scores)[inside]
    return float((ranks.sum() - count * (count + 1) / 2) / pairs) if pairs else GUESS
