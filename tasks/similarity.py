"""How alike two users are (paper section 4.2): the vectors compared and the metric, shared by the grouping steps."""

from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.ratings import Ratings
from tasks.steps.padding import open_model


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

    def vectors(self, ingest: Path, padding: Path, users: np.ndarray) -> np.ndarray:
        """Padded rating vectors of some users."""
        return padded_rows(ingest, padding, users, keep_observed=self.keep_observed)

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
