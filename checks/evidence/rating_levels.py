"""Decide when a published value is a person's rating: when it rounds to that rating, and to no other.

People give ratings on levels (1, 2, … 5), and a published 3.2 reads as 3. A value half-way between two levels must not
count as both: it rounds to the level with the even number, counted from the lowest (1.5 to 1, 2.5 and 3.5 to 3, 4.5 to
5), so it is right for exactly one of two neighbours. Means of n ratings lie on a grid n times as fine. On continuous
scales a value reads as every rating within `Truth.half_level`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import vectorize

from checks.evidence.truth import Truth

THOUSAND = 1e3  # parts of a level that count: published values are float32, and 3.5 must stay half-way
CLOSE = 1e-4
MOST_LEVELS = 100  # from the lowest to the highest; with more, the scale is as good as continuous


# One pass over the values and nothing in between: every rating of everybody is read several times.


@vectorize(["float64(float64, float64, float64, float64)"], cache=True)
def nearest_level(value, number, lowest, half):  # type: ignore[no-untyped-def]
    """Return the number of the level that is nearest to a mean of so many ratings; of two, the even one."""
    return np.rint(np.rint((value - lowest) * number / (2 * half) * THOUSAND) / THOUSAND)


@vectorize(["boolean(float64, float64, float64, float64, float64, boolean)"], cache=True)
def reads_as(value, rating, number, lowest, half, has_levels):  # type: ignore[no-untyped-def]
    """Test whether a value reads as this rating, or this mean of so many ratings."""
    if has_levels:
        return nearest_level(value, number, lowest, half) == nearest_level(rating, number, lowest, half)
    return abs(value - rating) <= half + CLOSE


@dataclass(frozen=True)
class RatingLevels:
    """Hold the scale on which people rate: its lowest common rating, and half the distance between two levels."""

    lowest: float
    half: float
    has_levels: bool

    @classmethod
    def of(cls, truth: Truth) -> "RatingLevels":
        """Return the scale of the source's ratings."""
        values, half = truth.value_counts[0], truth.half_level
        if not len(values):
            return cls(0.0, half, True)
        few = (values[-1] - values[0]) / (2 * half) <= MOST_LEVELS
        has_levels = len(values) < 2 or bool(len(truth.common_levels) and few)
        # Levels are counted from one that is common: a stray rating below it must not shift the grid.
        lowest = truth.common_levels[0] if has_levels and len(truth.common_levels) else values[0]
        return cls(float(lowest), half, has_levels)

    def same(self, values: np.ndarray, ratings: np.ndarray, number: np.ndarray | int = 1) -> np.ndarray:
        """Mark the values that read as these ratings, or as these means of so many ratings; NaN reads as nothing."""
        return reads_as(values, ratings, number, self.lowest, self.half, self.has_levels)

    def level(self, values: np.ndarray, number: np.ndarray | int = 1) -> np.ndarray:
        """Return the number of the level that is nearest to each value; of two, the even one."""
        return nearest_level(values, number, self.lowest, self.half)


@dataclass(frozen=True)
class ItemRatings:
    """Hold how often each item got each rating: what a value would read as if it were somebody else's.

    `counts` has a row per item and a column per level; on continuous scales a column per half level.
    """

    levels: RatingLevels
    first: int
    counts: np.ndarray

    @classmethod
    def of(cls, truth: Truth) -> "ItemRatings":
        """Count the ratings in one pass."""
        levels = RatingLevels.of(truth)
        ends = truth.value_counts[0][[0, -1]] if truth.ratings.nnz else np.zeros(2)
        first, last = (int(end) for end in _columns(levels, ends))
        width, items = last - first + 3, truth.ratings.shape[1]  # an empty column at either end
        counts = np.zeros(items * width, np.int32)
        for part in truth.stretches():
            column = _columns(levels, truth.ratings.data[part]) - first + 1
            place = truth.ratings.indices[part].astype(np.int64) * width + column
            counts += np.bincount(place, minlength=len(counts)).astype(np.int32)
        return cls(levels, first - 1, counts.reshape(items, width))

    @cached_property
    def _overall(self) -> np.ndarray:
        return self.counts.sum(axis=0, dtype=np.int64)

    @cached_property
    def _per_item(self) -> np.ndarray:
        return self.counts.sum(axis=1, dtype=np.int64)

    def chance(self, values: np.ndarray, items: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return how likely each value reads as another person's rating of the item; `own` is the rating that does not
        count. Where nobody else rated the item, any rating of any item stands in."""
        matching, overall, mine = (np.zeros(len(values)) for _ in range(3))
        own_column = _columns(self.levels, own)
        for column, weight in self._windows(values):
            place = np.clip(column - self.first, 0, self.counts.shape[1] - 1)
            matching += weight * self.counts[items, place]
            overall += weight * self._overall[place]
            mine += weight * (own_column == column)
        others = self._per_item[items] - 1
        everybody = max(1, int(self._overall.sum()) - 1)
        return np.where(others > 0, (matching - mine) / np.maximum(others, 1), (overall - mine) / everybody)

    def _windows(self, values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the columns that read as each value, each with the part of it that does."""
        if self.levels.has_levels:
            yield _columns(self.levels, values), np.ones(len(values))
            return
        exact = (np.asarray(values, np.float64) - self.levels.lowest) / self.levels.half
        column = np.floor(exact).astype(np.int64)
        over = exact - column
        yield column - 1, 1 - over
        yield column, np.ones(len(values))
        yield column + 1, over


def _columns(levels: RatingLevels, values: np.ndarray) -> np.ndarray:
    if levels.has_levels:
        return levels.level(values).astype(np.int64)
    return np.floor((np.asarray(values, np.float64) - levels.lowest) / levels.half).astype(np.int64)
