"""Compute how well a score separates likes from dislikes: the area under the curve, with an interval.

The variance is that of [DeLong1988], with the targets of one person as a cluster ([Obuchowski1997]): several opinions
of one person are not independent.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from checks.stats import interval_z


@dataclass(frozen=True)
class Area:
    """Hold an area under the curve and its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval: of 95 %, or wider where there were several attempts."""
        half = interval_z() * self.error
        return max(0.0, self.value - half), min(1.0, self.value + half)

    @property
    def turned(self) -> "Area":
        """Return the area for the attacker who reads the score in its better direction."""
        return Area(max(self.value, 1 - self.value), self.error)

    @property
    def most(self) -> float:
        """Return the upper bound, for either direction: a reversed score reveals as much."""
        low, high = self.interval
        return max(high, 1 - low)


def area_under_curve(score: np.ndarray, liked: np.ndarray, person: np.ndarray) -> Area:
    """Return the chance that a like has a higher score than a dislike, ties counting half.

    Without a like or a dislike nothing is known: the area is 0.5 and may be any.
    """
    likes, dislikes = int(liked.sum()), int((~liked).sum())
    if likes == 0 or dislikes == 0:
        return Area(0.5, 1.0)
    everywhere, within = rankdata(score), np.empty(len(score))
    within[liked], within[~liked] = rankdata(score[liked]), rankdata(score[~liked])
    # Share of the other kind that lies below this one: the target's own part of the area.
    below = (everywhere - within) / np.where(liked, dislikes, likes)
    own = np.where(liked, below, 1 - below)
    value = float(own[liked].mean())
    influence = (own - value) / np.where(liked, likes, dislikes)
    clusters = np.bincount(np.unique(person, return_inverse=True)[1], weights=influence)
    variance = len(clusters) / max(1, len(clusters) - 1) * float((clusters**2).sum())
    return Area(value, math.sqrt(variance))


def mean_area(areas: list[Area]) -> Area:
    """Return the mean of independent areas."""
    error = math.sqrt(sum(area.error**2 for area in areas)) / len(areas)
    return Area(sum(area.value for area in areas) / len(areas), error)
