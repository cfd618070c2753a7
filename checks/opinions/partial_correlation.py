"""Correlate item columns with one rater's opinion, beyond what the item's other raters explain.

An item has one column and several raters, so their opinions are not independent evidence: intervals come from leaving
out one item at a time (the jackknife over clusters), at most as wide as Fisher's for one opinion per item.
"""

import math
from dataclasses import dataclass

import numpy as np

from checks.opinions.raters import Opinions

NEARLY_ONE = 0.999999
FEWEST_ITEMS = 5  # with fewer, leaving one out shows nothing about the spread
EXPLAINING = 3  # regressors: a constant, whether there are other raters, and their mean opinion


@dataclass(frozen=True)
class Correlation:
    """Hold a partial correlation and its standard error on Fisher's scale, artanh r."""

    r: float
    error: float
    items: int
    opinions: int

    def interval(self, z: float) -> tuple[float, float]:
        """Return the interval of this many standard errors; (−1, 1) with too few items."""
        if self.items < FEWEST_ITEMS:
            return -1.0, 1.0
        centre = math.atanh(max(-NEARLY_ONE, min(NEARLY_ONE, self.r)))
        return math.tanh(centre - z * self.error), math.tanh(centre + z * self.error)

    def most(self, z: float) -> float:
        """Return the largest size that the correlation may have: a column that shows the opposite reveals as much."""
        low, high = self.interval(z)
        return max(-low, high)

    def least(self, z: float) -> float:
        """Return the smallest size that the correlation may have; 0 where its sign is not certain."""
        low, high = self.interval(z)
        return max(low, -high, 0.0)


def correlate(level: np.ndarray, opinions: Opinions) -> Correlation:
    """Return the correlation of the items' levels (by item) with the opinions, given the other raters' mean opinion."""
    item, count = np.unique(opinions.item, return_counts=True)
    rows = np.stack(
        [np.ones(len(opinions.own)), opinions.alone, opinions.others, level[opinions.item], opinions.own]
    )
    rows[2:] -= rows[2:].mean(axis=1, keepdims=True)
    starts = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    products = np.stack([np.add.reduceat(one * rows, starts, axis=1) for one in rows])
    each = np.moveaxis(products, 2, 0)  # items × 5 × 5: sums over an item's raters
    whole = each.sum(axis=0)
    r = float(_partial(whole[None])[0])
    without_one = np.arctanh(np.clip(_partial(whole - each), -NEARLY_ONE, NEARLY_ONE))
    spread = math.sqrt((len(item) - 1) / len(item) * float(((without_one - without_one.mean()) ** 2).sum()))
    # Between all opinions being independent and one opinion per item: near ±1 a single item that does not fit (a column
    # at the end of the scale) would otherwise make the spread as wide as if nothing were known.
    fewest, most = (1 / math.sqrt(max(1, n - EXPLAINING - 2)) for n in (len(opinions.own), len(item)))
    error = min(max(spread, fewest), most)
    return Correlation(r, error, len(item), len(opinions.own))


def _partial(products: np.ndarray) -> np.ndarray:
    """Return the correlation of the last two variables given the others, from sums of products; 0 where one of them is
    constant."""
    given, both = products[:, :EXPLAINING, :EXPLAINING], products[:, EXPLAINING:, EXPLAINING:]
    cross = products[:, :EXPLAINING, EXPLAINING:]
    # Pseudo-inverse: where every item has one rater, or none has, two of the explaining variables are constant.
    rest = both - np.swapaxes(cross, 1, 2) @ np.linalg.pinv(given, hermitian=True) @ cross
    size = np.sqrt(np.maximum(rest[:, 0, 0], 0) * np.maximum(rest[:, 1, 1], 0))
    scale = np.sqrt(np.maximum(both[:, 0, 0] * both[:, 1, 1], 0))
    known = size > 1e-9 * np.maximum(scale, 1e-12)  # smaller: rounding errors of something constant
    return np.where(known, rest[:, 0, 1] / np.where(known, size, 1), 0.0)
