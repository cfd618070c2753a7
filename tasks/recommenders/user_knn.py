"""Fit user-based neighbourhoods ([Herlocker1999]): score items by the ratings of similar users.

The neighbours of a row are the nearest *users*: a row that five share counts five times, the own row one time less.
Ratings: the neighbours' deviations from their biases, averaged over those who know the item. Items are ranked by how
many similar users have them; where every cell has a value, by the predicted value.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Recommender, Train, bias
from tasks.recommenders._cells import ROWS_AT_ONCE, mask_of, pick, weights_of

RECOMMENDER = Recommender(compared=True, position=50)
NEIGHBOURS = 100
LITTLE = 0.5  # weight, in similarity, of the shrinkage of an average of few neighbours


@dataclass(frozen=True)
class UserKnn:
    """Hold similarity × users for each row's neighbours."""

    base: bias.Biases
    residuals: Train
    ratings: sp.csr_array
    listed: sp.csr_array | None  # 1 where a row has the item; None: every row has every item
    company: sp.csr_array | None

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Return scores for every item."""
        if self.listed is None or self.company is None:
            return self._ratings(users)
        return (self.company[users] @ self.listed).toarray()

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict single cells."""
        return pick(self._ratings, users, items)

    def _ratings(self, users: np.ndarray) -> np.ndarray:
        near = self.ratings[users]
        total: Train = near @ self.residuals
        known = near.sum(axis=1)[:, None] if self.listed is None else (near @ self.listed).toarray()
        total = total if isinstance(total, np.ndarray) else total.toarray()
        return (self.base.rows(users) + total / (known + LITTLE)).astype(np.float32)


def fit(train: Train, weights: np.ndarray | None = None, *, neighbours: int = NEIGHBOURS) -> UserKnn:
    """Compute cosines between rows, a block of rows at a time."""
    people = weights_of(train, weights)
    base = bias.fit(train, people)
    residuals = base.residuals(train)
    listed = mask_of(train)
    company = None if listed is None else _nearest(listed, people, neighbours)
    return UserKnn(base, residuals, _nearest(residuals, people, neighbours), listed, company)


def _nearest(points: Train, people: np.ndarray, neighbours: int) -> sp.csr_array:
    """Return each row's nearest users, as (rows, rows): similarity × how many of a row's users are among them."""
    length = np.sqrt(np.asarray((points * points).sum(axis=1), np.float64))
    length[length == 0] = 1
    unit: Any  # dense or sparse
    if isinstance(points, np.ndarray):
        unit = (points / length[:, None]).astype(np.float32)
    else:
        unit = (sp.diags_array(1 / length) @ points).tocsr().astype(np.float32)
    rows = unit.shape[0]
    most = min(neighbours + 1, rows)  # one more, because the own row may hold no other user
    blocks = []
    for start in range(0, rows, ROWS_AT_ONCE):
        own = np.arange(start, min(start + ROWS_AT_ONCE, rows))
        similar = unit[own] @ unit.T
        similar = similar if isinstance(similar, np.ndarray) else similar.toarray()
        near = np.argpartition(similar, rows - most, axis=1)[:, rows - most :]
        near = np.take_along_axis(
            near, np.argsort(-np.take_along_axis(similar, near, axis=1), axis=1, kind="stable"), axis=1
        )
        there = people[near] - (near == own[:, None])
        taken = np.clip(neighbours - (np.cumsum(there, axis=1) - there), 0, there)
        value = np.maximum(np.take_along_axis(similar, near, axis=1), 0) * taken
        ends = np.arange(len(own) + 1) * most
        blocks.append(sp.csr_array((value.ravel(), near.ravel(), ends), shape=(len(own), rows)))
    return sp.csr_array(sp.vstack(blocks))
