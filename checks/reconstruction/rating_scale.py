"""The ratings people can give: what every reconstruction ends in."""

from dataclasses import dataclass

import numpy as np

from checks.reconstruction.kmeans import segment_middles

SEGMENTS = 10  # of a continuous scale, as in the paper's experiments with Jester (section 6.2)


@dataclass(frozen=True)
class RatingScale:
    """`levels`, ascending; a rating is told by a value no further from it than `half` the distance between two."""

    levels: np.ndarray
    half: float

    @classmethod
    def segments(cls, low: float, high: float) -> "RatingScale":
        """Of a continuous scale: the middles of its segments."""
        return cls(segment_middles(low, high, SEGMENTS), (high - low) / SEGMENTS / 2)

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """The level nearest to each value."""
        borders = (self.levels[1:] + self.levels[:-1]) / 2
        return self.levels[np.searchsorted(borders, values)]
