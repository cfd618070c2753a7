"""Test whether item columns repeat the opinion of one of their raters, whichever that is.

An average over raters hides such a column: with three raters it correlates with a rater drawn at random by only 0.4.
Whoever knows the other raters' opinions sees that it is none of them. The attacker therefore takes what the raters'
mean opinion does not explain of each column, and the rater whose distance from that mean is nearest to it. Other
columns have a nearest rater, too: the correlation that the same choice finds with columns exchanged between the items
is what chance gives, and the gain over it counts.
"""

import math
from dataclasses import dataclass

import numpy as np

from checks.opinions.partial_correlation import NEARLY_ONE
from checks.opinions.raters import Opinions
from checks.stats import residual

EXCHANGES = 20


@dataclass(frozen=True)
class NearestRater:
    """Hold the correlation of columns with their nearest rater's opinion, and what chance gives."""

    correlation: float
    by_chance: float
    items: int

    @property
    def r(self) -> float:
        """The gain over chance, as a share of what chance leaves."""
        return residual(self.correlation, self.by_chance)

    def interval(self, z: float) -> tuple[float, float]:
        """Return the interval of the gain; what chance gives is the mean of many exchanges and known well."""
        if self.items <= 3:
            return -1.0, 1.0
        centre = math.atanh(max(-NEARLY_ONE, min(NEARLY_ONE, self.correlation)))
        bounds = (math.tanh(centre + sign * z / math.sqrt(self.items - 3)) for sign in (-1, 1))
        low, high = (max(-1.0, residual(bound, self.by_chance)) for bound in bounds)
        return low, high

    def least(self, z: float) -> float:
        """Return the smallest gain there may be; 0 where there may be none."""
        return max(self.interval(z)[0], 0.0)


def find_nearest(level: np.ndarray, opinions: Opinions, draw: np.random.Generator) -> NearestRater:
    """Compare the items' levels (by item) with the opinions of their raters, as they are and reversed; items with one
    rater are left out."""
    opinions = opinions.take(~opinions.alone)
    items, start, count = np.unique(opinions.item, return_index=True, return_counts=True)
    if len(items) < 2:
        return NearestRater(0.0, 0.0, len(items))
    mean = np.add.reduceat(opinions.own, start) / count
    own = opinions.own - np.repeat(mean, count)
    given = np.column_stack([np.ones(len(items)), mean])
    column = level[items] - given @ np.linalg.lstsq(given, level[items], rcond=None)[0]
    if column.std() <= 1e-9 or own.std() <= 1e-9:  # rounding errors
        return NearestRater(0.0, 0.0, len(items))
    # On the scale of opinions: the attacker need not know how strongly a column follows them.
    column *= own.std() / column.std()

    def correlate(shown: np.ndarray) -> float:
        apart = np.abs(own - np.repeat(shown, count))
        smallest = np.repeat(np.minimum.reduceat(apart, start), count)
        nearest = np.flatnonzero(apart == smallest)
        nearest = nearest[np.unique(opinions.item[nearest], return_index=True)[1]]
        return 0.0 if np.ptp(own[nearest]) == 0 else float(np.corrcoef(shown, own[nearest])[0, 1])

    found = []
    for shown in (column, -column):
        by_chance = np.mean([correlate(draw.permutation(shown)) for _ in range(EXCHANGES)])
        found.append(NearestRater(correlate(shown), float(by_chance), len(items)))
    return max(found, key=lambda one: one.r)
