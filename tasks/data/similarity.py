"""Define how similar two users are ([Chang2009], section 4.2): the vectors compared and the metric."""

from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.factors import open_model, open_segments
from tasks.data.ratings import Ratings
from tasks.kernels.rating_vectors import DenseVectors, LowRankVectors, RatingVectors

DENSE_CELLS = 8_000_000
# With fewer items that show a level only, multiplying them out costs little, and distances are rounded as they were
# in releases of earlier versions.
LONG_CATALOGUE = 20_000


class Similarity(Settings):
    """Hold the metric, the span of the scale it is relative to, and whether observed ratings stay in the vectors."""

    metric: str
    max_diff: float
    keep_observed: bool

    @classmethod
    def of(cls, config: ReleaseConfig) -> "Similarity":
        """Return how a release compares users."""
        low, high = config.source.scale
        keep = config.padding.keep_observed
        return cls(metric=config.clustering.metric, max_diff=high - low, keep_observed=keep)

    def points(self, ratings: Path, factors: Path, users: np.ndarray) -> RatingVectors:
        """Return the padded rating vectors of some users; predictions alone stay in the space of their factors."""
        if self.keep_observed:
            return DenseVectors(
                padded_rows(ratings, factors, users, keep_observed=True), open_segments(factors)
            )
        return self.as_points(factors, np.asarray(open_model(factors).users[users]))

    def as_points(self, factors: Path, held: np.ndarray) -> RatingVectors:
        """Return vectors from their stored form (`RatingVectors.array`), which steps pass on: centres, for instance."""
        if self.keep_observed:
            return DenseVectors(held, open_segments(factors))
        model = open_model(factors)
        items = np.asarray(model.items)
        return LowRankVectors.without_levels(held, open_segments(factors), items, model.mean, LONG_CATALOGUE)

    def users_at_once(self, n_items: int) -> int:
        """Return how many users' vectors a worker holds while it compares them with all centres (32 MB)."""
        return max(1, DENSE_CELLS // n_items) if self.keep_observed else 8_192

    @property
    def measure(self) -> dict:
        """Return the metric as the keyword arguments of the kernels."""
        return {"metric": self.metric, "max_diff": self.max_diff}


def padded_rows(ratings: Path, factors: Path, users: np.ndarray, *, keep_observed: bool) -> np.ndarray:
    """Return predictions of some users for every item, with their observed ratings in place where these are kept."""
    model = open_model(factors)
    if not keep_observed:
        return model.rows(users)
    return model.padded_rows(users, Ratings(ratings).by_user.take(users))
