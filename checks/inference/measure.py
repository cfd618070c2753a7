"""Balanced precision (paper 004, equation 3) and the cut-off at which no information is worth 0.5.

BPre = c·ρ₁ + (1 − c)·ρ₀ with ρ the recall of each class and c = −log₂ p / (−log₂ p − log₂(1 − p)). With p = 0.28 the
answer "of the class" for everybody has ρ₁ = 1, ρ₀ = 0 and BPre = c = 0.79 without knowing anything. So an inferrer may
not choose its own cut-off: it is where both classes' recalls are equal among *other* people, of whom the attacker
knows the attribute. There c does not matter, and who knows nothing has 0.5.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from checks.stats import Z95, Risk, clustered, weighted_sum

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


def answers(
    scores: np.ndarray, inside: np.ndarray, folds: np.ndarray, learnt: np.ndarray | None = None
) -> np.ndarray:
    """Whom an attacker calls of the class: the cut-off for each fold is found in the others, on `learnt`, the scores
    he has of people he knows (those he is asked with, unless told otherwise)."""
    known = scores if learnt is None else learnt
    called = np.zeros(len(scores))
    for fold in np.unique(folds):
        own = folds == fold
        called[own] = equal_recalls(known[~own], inside[~own]).called(scores[own])
    return called


@dataclass(frozen=True)
class Balanced(Risk):
    """Balanced precision as a risk: `successes` of `n` people are told right, and `rate` weighs both classes' recalls
    (of the class, of all others), each over its effective number of people."""

    recalls: tuple[Risk, Risk] = (Risk(0, 0), Risk(0, 0))
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
        """Its interval at another z."""
        shares = [(recall.successes, recall.n) for recall in self.recalls]
        low, high = weighted_sum(shares, (self.weight, 1 - self.weight), z)
        return max(0.0, low), min(1.0, high)

    @property
    def by_guess(self) -> float:
        """The upper bound somebody who knows nothing would have with as many people: above the threshold, nothing can
        be shown."""
        halves = [(recall.n / 2, recall.n) for recall in self.recalls]
        return weighted_sum(halves, (self.weight, 1 - self.weight), self.z)[1]


def balanced(
    called: np.ndarray, inside: np.ndarray, groups: np.ndarray, weights: np.ndarray, *, share: float, z: float
) -> Balanced:
    """What these answers are worth where this share of all people is of the class.

    People of one group have one record, and are told right or wrong together: the recalls are counted with as many
    people as would leave them as uncertain as the differences between groups do. That both recalls hang together inside
    a group (who calls all of it right about one class is wrong about the other) makes the truth less uncertain than
    the interval, never more.
    """
    right = np.where(inside, called, 1 - called)
    recalls = [_recall(right[who], groups[who], weights[who]) for who in (inside, ~inside)]
    return Balanced(
        float(right.sum()),
        len(right),
        GUESS,
        recalls=(recalls[0], recalls[1]),
        weight=rarity_weight(share),
        z=z,
    )


def _recall(right: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> Risk:
    """The share told right, over the effective number of people."""
    alone = len(np.unique(groups)) == len(groups)
    if alone and not np.ptp(weights):  # everybody for themselves, and all alike
        return Risk(float(right.sum()), len(right), GUESS)
    heavy = weights * (len(weights) / max(weights.sum(), 1e-12))
    _, group = np.unique(groups, return_inverse=True)
    return clustered(np.bincount(group, heavy * right), np.bincount(group, heavy), GUESS)


def area_under_curve(scores: np.ndarray, inside: np.ndarray) -> float:
    """Chance that somebody of the class scores higher than somebody who is not, ties counting half."""
    count = int(inside.sum())
    pairs = count * (len(inside) - count)
    ranks = rankdata(scores)[inside]
    return float((ranks.sum() - count * (count + 1) / 2) / pairs) if pairs else GUESS
