"""How alike two users are (paper section 4.2): the vectors compared and the metric, shared by the grouping steps."""

from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.points import DensePoints, LowRankPoints, Points
from tasks.ratings import Ratings
from tasks.steps.padding import open_model, open_segments

DENSE_CELLS = 8_000_000


class Similarity(Settings):
    """The metric, the span of the scale it is relative to, and whether observed ratings stay in the vectors."""

    metric: str
    max_diff: float
    keep_observed: bool

    @classmethod
    def of(cls, config: ReleaseConfig) -> "Similarity":
        """The release's way of comparing users."""
        low, high = config.source.scale
        keep = config.padding.keep_observed
        return cls(metric=config.clustering.metric, max_diff=high - low, keep_observed=keep)

    def points(self, ingest: Path, padding: Path, users: np.ndarray) -> Points:
        """Padded rating vectors of some users; predictions alone stay in the space of their factors."""
        if self.keep_observed:
            return DensePoints(
                padded_rows(ingest, padding, users, keep_observed=True), open_segments(padding)
            )
        return self.as_points(padding, np.asarray(open_model(padding).users[users]))

    def as_points(self, padding: Path, held: np.ndarray) -> Points:
        """Vectors of which the steps hold (and pass on) what `Points.held` says: centres, for instance."""
        if self.keep_observed:
            return DensePoints(held, open_segments(padding))
        model = open_model(padding)
        return LowRankPoints(held, open_segments(padding), np.asarray(model.items), model.mean)

    def users_at_once(self, n_items: int) -> int:
        """Users whose vectors a worker holds while it compares them with all centres: 32 MB."""
        return max(1, DENSE_CELLS // n_items) if self.keep_observed else 8_192

    @property
    def measure(self) -> dict:
        """The arguments by which kernels know the metric."""
        return {"metric": self.metric, "max_diff": self.max_diff}


def padded_rows(ingest: Path, padding: Path, users: np.ndarray, *, keep_observed: bool) -> np.ndarray:
    """Predictions of some users for every item, observed ratings in place where they are kept."""
    model = open_model(padding)
    if not keep_observed:
        return model.rows(users)
    return model.padded_rows(users, Ratings(ingest).by_user.take(users))
