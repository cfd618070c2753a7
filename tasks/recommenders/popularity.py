"""Recommend the most popular items to all users, and predict every item's mean.

Where every user has every item (padded and all-entries releases) popularity is equal: the better mean comes first.
"""

from dataclasses import dataclass

import numpy as np

from tasks.recommenders import Recommender, Train
from tasks.recommenders._cells import mask_of, weights_of

RECOMMENDER = Recommender(compared=True, position=10)
SHRINKAGE = 5.0  # weight, in users, of the overall mean


@dataclass(frozen=True)
class Popularity:
    """Hold a score and a mean for every item."""

    scores: np.ndarray
    means: np.ndarray

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Return the same scores for all users."""
        return np.broadcast_to(self.scores, (len(users), len(self.scores)))

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict the item's mean."""
        return self.means[items]


def fit(train: Train, weights: np.ndarray | None = None, *, shrinkage: float = SHRINKAGE) -> Popularity:
    """Count and average the ratings of every item."""
    people = weights_of(train, weights)
    listed = mask_of(train)
    known = np.full(train.shape[1], people.sum()) if listed is None else listed.T @ people
    totals = np.asarray(train.T @ people, np.float64)
    mean = totals.sum() / max(known.sum(), 1.0)
    means = (totals + shrinkage * mean) / (known + shrinkage)
    scores = np.empty(len(known), np.float32)
    scores[np.lexsort((means, known))] = np.arange(len(known))
    return Popularity(scores, means)
