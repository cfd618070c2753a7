"""Predict mean + user level + item level, both shrunk towards 0: the baseline that the neighbourhoods build upon."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Recommender, Train
from tasks.recommenders._cells import mask_of, weights_of

RECOMMENDER = Recommender(compared=True, position=20)
SHRINKAGE = 5.0  # weight, in ratings, of a level of 0
ITERATIONS = 10


@dataclass(frozen=True)
class Biases:
    """Hold the difference of every user and every item from the mean."""

    mean: float
    users: np.ndarray
    items: np.ndarray

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predict every item."""
        return (self.mean + self.users[users, None] + self.items).astype(np.float32)

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict single cells."""
        return self.mean + self.users[users] + self.items[items]

    def residuals(self, train: Train) -> Train:
        """Return the residuals of the known values, in the form of `train`."""
        if isinstance(train, np.ndarray):
            return (train - self.rows(np.arange(len(train)))).astype(np.float32, copy=False)
        row = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
        left = (train.data - self.predict(row, train.indices)).astype(np.float32)
        return sp.csr_array((left, train.indices, train.indptr), shape=train.shape)


def fit(
    train: Train,
    weights: np.ndarray | None = None,
    *,
    shrinkage: float = SHRINKAGE,
    iterations: int = ITERATIONS,
) -> Biases:
    """Alternate between items and users; only sums over rows and columns are needed."""
    people = weights_of(train, weights)
    shape = train.shape
    mask = mask_of(train)
    if mask is not None:
        over_items, over_users = (lambda b: mask @ b), (lambda a: mask.T @ a)
    else:
        over_items, over_users = (
            (lambda b: np.full(shape[0], b.sum())),
            (lambda a: np.full(shape[1], a.sum())),
        )
    totals = np.asarray(train @ np.ones(shape[1]), np.float64)
    item_totals = np.asarray(train.T @ people, np.float64)
    counts, item_counts = over_items(np.ones(shape[1])), over_users(people)
    mean = float(item_totals.sum() / max(item_counts.sum(), 1.0))
    users, items = np.zeros(shape[0]), np.zeros(shape[1])
    for _ in range(iterations):
        left = item_totals - mean * item_counts - over_users(people * users)
        items = left / (item_counts + shrinkage)
        users = (totals - mean * counts - over_items(items)) / (counts + shrinkage)
    return Biases(mean, users, items)
