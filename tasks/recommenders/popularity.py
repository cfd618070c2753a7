"""The plainest: everybody gets what most people have, and every item is worth its mean.

Where everybody has every item (padded and all-entries releases) there is no most: the better mean comes first.
"""

from dataclasses import dataclass

import numpy as np

from tasks.recommenders import Train
from tasks.recommenders._cells import mask_of, weights_of

SHRINKAGE = 5.0  # people's worth of doubt towards the mean of all


@dataclass(frozen=True)
class Popularity:
    """A place in the list and a mean for every item."""

    scores: np.ndarray
    means: np.ndarray

    def rows(self, users: np.ndarray) -> np.ndarray:
        """The same for everybody."""
        return np.broadcast_to(self.scores, (len(users), len(self.scores)))

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The item's mean."""
        return self.means[items]


def fit(train: Train, weights: np.ndarray | None = None, *, shrinkage: float = SHRINKAGE) -> Popularity:
    """Count and average."""
    people = weights_of(train, weights)
    listed = mask_of(train)
    known = np.full(train.shape[1], people.sum()) if listed is None else listed.T @ people
    totals = np.asarray(train.T @ people, np.float64)
    mean = totals.sum() / max(known.sum(), 1.0)
    means = (totals + shrinkage * mean) / (known + shrinkage)
    scores = np.empty(len(known), np.float32)
    scores[np.lexsort((means, known))] = np.arange(len(known))
    return Popularity(scores, means)
