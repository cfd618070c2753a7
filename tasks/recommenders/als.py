"""Fit a matrix factorization with biases, the same as the padding model (tasks/kernels/als.py), for shared rows.

A row's factors depend on its own values only, so repeating it changes nothing for it; for an item every user counts.
Where every cell is known all rows have the same normal equations, which are solved at once.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.kernels.als import BIAS_PRIOR, PRIOR, half_step, items_matrix, regressors, start, users_matrix
from tasks.kernels.padded import LowRank
from tasks.recommenders import Recommender, Train
from tasks.recommenders._cells import weights_of

RECOMMENDER = Recommender(compared=True, position=30)
RANK = 16
ITERATIONS = 10
# Times the values' standard deviation: 0.04 for ratings from 1 to 5, as in the padding model.
REGULARIZATION = 0.036


@dataclass(frozen=True)
class Factors:
    """Hold a fitted factorization."""

    model: LowRank

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predict every item."""
        return self.model.rows(users)

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict single cells."""
        return self.model.cells(users, items)


def fit(
    train: Train,
    weights: np.ndarray | None = None,
    *,
    rank: int = RANK,
    regularization: float = REGULARIZATION,
    iterations: int = ITERATIONS,
) -> Factors:
    """Alternate between rows and items, from a fixed start."""
    people = weights_of(train, weights).astype(np.int64)
    if sp.issparse(train):
        by_user = sp.csr_array(train)
        by_item = _repeated(sp.csc_array(train), people)
        sums, counts = np.asarray(train.T @ people, np.float64), np.diff(by_item.indptr)
        mean, deviation = float(by_item.data.mean()), float(by_item.data.std())
    else:
        sums, counts = (train.T @ people).astype(np.float64), np.full(train.shape[1], people.sum())
        mean = float(sums.sum() / counts.sum())
        deviation = float(np.sqrt(people @ ((train - mean) ** 2).mean(axis=1) / people.sum()))
    ridge = regularization * max(deviation, 1e-6)
    items = start(sums, counts, mean, rank, np.random.default_rng(0))
    users = np.zeros((train.shape[0], rank + 1), np.float32)
    for turn in range(iterations + 1):
        offsets = items[:, rank] + np.float32(mean)
        if sp.issparse(train):
            users = half_step(
                by_user.indptr, by_user.indices, by_user.data, regressors(items), offsets, ridge
            )
        else:
            users = _dense_half_step(train, regressors(items), offsets, ridge)
        if turn == iterations:  # the rows are solved last, as in the padding step
            break
        offsets = users[:, rank] + np.float32(mean)
        if sp.issparse(train):
            items = half_step(
                by_item.indptr, by_item.indices, by_item.data, regressors(users), offsets, ridge
            )
        else:
            items = _dense_half_step(train.T, regressors(users), offsets, ridge, people)
    return Factors(LowRank(users_matrix(users), items_matrix(items), mean))


def _repeated(by_item: sp.csc_array, people: np.ndarray) -> sp.csc_array:
    """Repeat every rating as often as users share it; the row indices stay those of the shared rows."""
    times = people[by_item.indices]
    indptr = np.concatenate([[0], np.cumsum(times)])[by_item.indptr]
    return sp.csc_array(
        (np.repeat(by_item.data, times), np.repeat(by_item.indices, times), indptr), shape=by_item.shape
    )


def _dense_half_step(
    values: np.ndarray,
    features: np.ndarray,
    offsets: np.ndarray,
    regularization: float,
    people: np.ndarray | None = None,
) -> np.ndarray:
    """Solve `half_step` where every cell is known; `people` weights the columns."""
    columns = np.column_stack([features, np.ones(len(features))]).astype(np.float64)
    weighed = columns if people is None else columns * people[:, None]
    count = len(features) if people is None else people.sum()
    ridge = np.full(columns.shape[1], regularization * (count + PRIOR))
    ridge[-1] = regularization * BIAS_PRIOR
    right = values @ weighed.astype(np.float32) - offsets.astype(np.float64) @ weighed
    return np.linalg.solve(columns.T @ weighed + np.diag(ridge), right.T).T.astype(np.float32)
