"""Represent the ratings people can give: every reconstruction ends in one of them."""

from dataclasses import dataclass

import numpy as np

from checks.evidence.case import Case
from checks.reconstruction.kmeans import segment_middles

SEGMENTS = 10  # of a continuous scale, as in the paper's experiments with Jester (section 6.2)


@dataclass(frozen=True)
class RatingScale:
    """Hold the `levels`, ascending; a value no further from a rating than `half` the distance between two levels
    recovers it."""

    levels: np.ndarray
    half: float

    @classmethod
    def segments(cls, low: float, high: float) -> "RatingScale":
        """Return the middles of the segments of a continuous scale."""
        return cls(segment_middles(low, high, SEGMENTS), (high - low) / SEGMENTS / 2)

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """Return the level nearest to each value."""
        borders = (self.levels[1:] + self.levels[:-1]) / 2
        return self.levels[np.searchsorted(borders, values)]


def rating_scale(case: Case) -> RatingScale:
    """Return the ratings people can give, which an attacker knows as well."""
    return case.cached("rating scale", lambda: _scale(case))


def _scale(case: Case) -> RatingScale:
    truth = case.truth
    values = truth.value_counts[0]
    if len(values) and len(truth.common_levels):
        # The ends too, however rare: k-means counts its clusters from there.
        return RatingScale(np.union1d(truth.common_levels, values[[0, -1]]), truth.half_level)
    return RatingScale.segments(case.release.low, case.release.high)
