"""Mean + the person's level + the item's level, both shrunk towards 0: the baseline the neighbourhoods build upon."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Train
from tasks.recommenders._cells import mask_of, weights_of

SHRINKAGE = 5.0  # ratings' worth of doubt towards a level of 0
ITERATIONS = 10


@dataclass(frozen=True)
class Biases:
    """What everybody and every item is above the mean."""

    mean: float
    users: np.ndarray
    items: np.ndarray

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predictions for every item."""
        return (self.mean + self.users[users, None] + self.items).astype(np.float32)

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predictions of single cells."""
        return self.mean + self.users[users] + self.items[items]

    def residuals(self, train: Train) -> Train:
        """What is left of the known values, in the form of `train`."""
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
    """Alternate between items and people; only sums over rows and columns are needed."""
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
