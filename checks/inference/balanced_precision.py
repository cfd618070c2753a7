"""Balanced precision (paper 004, equation 3) and the cut-off at which no information is worth 0.5.

BPre = c·ρ₁ + (1 − c)·ρ₀ with ρ the recall of each class and c = −log₂ p / (−log₂ p − log₂(1 − p)). With p = 0.28 the
answer "of the class" for everybody has ρ₁ = 1, ρ₀ = 0 and BPre = c = 0.79 without knowing anything. So an inferrer may
not choose its own cut-off: it is where both classes' recalls are equal among the people asked (decision 13 tells why
not among others). There c does not matter, and who knows nothing has 0.5.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from checks.stats import Z95, Risk, clustered, weighted_sum, wilson

GUESS = 0.5


def rarity_weight(share: float) -> float:
    """c of equation 3 for a class that so many people are of: the rarer counts more."""
    one, other = -math.log2(share), -math.log2(1 - share)
    return one / (one + other)


@dataclass(frozen=True)
class Cut:
    """Above `value` people are called of the class; at it, this share of them."""

    value: float
    at: float

    def called(self, scores: np.ndarray) -> np.ndarray:
        """1: of the class, 0: not, between: so probably (scores that tie with the cut-off)."""
        return np.where(scores > self.value, 1.0, np.where(scores == self.value, self.at, 0.0))


def equal_recalls(scores: np.ndarray, inside: np.ndarray) -> Cut:
    """The cut-off at which as large a share of the class is called of it as of the others is not."""
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


def at_equal_recalls(scores: np.ndarray, inside: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Who is called of the class where the recalls of each fold are equal: what the scores of a fold are worth,
    whatever their scale. Nobody's own value has a part in it but through this one number."""
    called = np.zeros(len(scores))
    for fold in np.unique(folds):
        own = folds == fold
        called[own] = equal_recalls(scores[own], inside[own]).called(scores[own])
    return called


def answers(scores: np.ndarray, inside: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Whom an attacker calls of the class, who has to find the cut-off for each fold in the others."""
    called = np.zeros(len(scores))
    for fold in np.unique(folds):
        own = folds == fold
        called[own] = equal_recalls(scores[~own], inside[~own]).called(scores[own])
    return called


@dataclass(frozen=True)
class Balanced(Risk):
    """Balanced precision as a risk: `successes` of `n` people are told right, and `rate` weighs both classes' recalls
    (of the class, of all others), each over its effective number of people. `together` is both recalls' mean."""

    recalls: tuple[Risk, Risk] = (Risk(0, 0), Risk(0, 0))
    together: Risk | None = None
    weight: float = 0.5
    z: float = Z95

    @property
    def rate(self) -> float:
        """Balanced precision."""
        one, other = self.recalls
        return self.weight * one.rate + (1 - self.weight) * other.rate

    @property
    def interval(self) -> tuple[float, float]:
        """Its interval, at the z it was asked for."""
        return self.at(self.z)

    def at(self, z: float) -> tuple[float, float]:
        """Its interval at another z.

        At a cut-off that was found elsewhere the recalls err by themselves, and their intervals are put together. One
        that is found anew where recalls are equal makes them err together: what one loses by a cut-off that is too high
        the other gains. What is left is the error of their mean, whatever c is (decision 0013 has the trial).
        """
        if self.together is not None:
            return wilson(self.rate * self.together.n, self.together.n, z)
        shares = [(recall.successes, recall.n) for recall in self.recalls]
        low, high = weighted_sum(shares, (self.weight, 1 - self.weight), z)
        return max(0.0, low), min(1.0, high)

    @property
    def effective(self) -> int:
        """Independent people who would leave it as uncertain."""
        return self.together.n if self.together else sum(recall.n for recall in self.recalls)

    @property
    def by_guess(self) -> float:
        """The upper bound somebody who knows nothing would have with as many people: above the threshold, nothing can
        be shown."""
        one, other = (replace(recall, successes=recall.n / 2) for recall in self.recalls)
        return replace(self, recalls=(one, other)).interval[1]


def balanced(
    called: np.ndarray,
    inside: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    *,
    share: float,
    z: float = Z95,
    found_elsewhere: bool = False,
) -> Balanced:
    """What these answers are worth where this share of all people is of the class; `found_elsewhere`: the cut-off was
    not found where recalls are equal among such people.

    People of one group have one record, and are told right or wrong together: the recalls are counted with as many
    people as would leave them as uncertain as the differences between groups do (Kish; `clustered`).
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
    return Balanced(
        float(right.sum()), len(right), GUESS,
        recalls=(recalls[0], recalls[1]), together=together, weight=rarity_weight(share), z=z,
    )  # fmt: skip


def _effective(right: np.ndarray, weights: np.ndarray, groups: np.ndarray) -> Risk:
    """The share told right, over the effective number of people."""
    _, group = np.unique(groups, return_inverse=True)
    if group.max(initial=-1) + 1 == len(groups) and not np.ptp(
        weights
    ):  # everybody for themselves, and all alike
        return Risk(float(right.sum()), len(right), GUESS)
    found = clustered(np.bincount(group, weights * right), np.bincount(group, weights), GUESS)
    count = max(1, min(found.n, int(weights.sum() + 1e-9)))
    return Risk(found.rate * count, count, GUESS)


def area_under_curve(scores: np.ndarray, inside: np.ndarray) -> float:
    """Chance that somebody of the class scores higher than somebody who is not, ties counting half."""
    count = int(inside.sum())
    pairs = count * (len(inside) - count)
    ranks = rankdata(scores)[inside]
    return float((ranks.sum() - count * (count + 1) / 2) / pairs) if pairs else GUESS
