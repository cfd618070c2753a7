"""Fit a low-rank model of disguised z-scores by EM ([Zhang2006], section 5).

`train` holds z-scores per user, with noise or without, and so do the predictions: the user they are for, who alone
knows her mean and standard deviation, converts them to ratings. Where `train` is dense nothing is missing, and the
first round is the last.

The filled matrix of a round is the model (low rank) plus the residual of the known values (sparse), and is never
built: a round costs about a hundred products with both.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from pydantic import Field
from scipy.sparse.linalg import LinearOperator, eigsh

from tasks.config.base import Settings
from tasks.recommenders import Recommender, Train

RECOMMENDER = Recommender(compared=False)  # it serves the study of [Zhang2006]
SMALL = 300  # items: below this number all eigenvectors cost less than iterating for some


class SvdEm(Settings):
    """Set the dimensions (ten: [Zhang2006], section 6.1) and the EM rounds for predictions (docs/leaks-and-bars.md)."""

    rank: int = Field(default=10, ge=1)
    iterations: int = Field(default=10, ge=1)
    noise_variance: float = Field(
        default=0.0,
        ge=0,
        description="uniform noise: what is taken off the diagonal of ÂᵀÂ for every disguised value of an item "
        "(equation 5.5); Gaussian noise needs no correction",
    )


@dataclass(frozen=True)
class LowRank:
    """Hold the model X = left · rightᵀ."""

    left: np.ndarray
    right: np.ndarray

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predict the z-scores of every item."""
        return self.left[users] @ self.right.T

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict the z-scores of single cells."""
        return np.einsum("cf,cf->c", self.left[users], self.right[items])


def fit(train: Train, **settings: Any) -> LowRank:
    """Fill missing cells from the model, project the filled matrix onto its main directions, and repeat."""
    chosen = SvdEm(**settings)
    model = LowRank(np.zeros((train.shape[0], 1)), np.zeros((train.shape[1], 1)))
    if isinstance(train, np.ndarray):
        return project(train, model, rank=chosen.rank, off_diagonal=chosen.noise_variance * len(train))
    owners = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
    off_diagonal = chosen.noise_variance * np.bincount(train.indices, minlength=train.shape[1])
    for _ in range(chosen.iterations):
        rest = train.data - model.predict(owners, train.indices)
        known = sp.csr_array((rest, train.indices, train.indptr), shape=train.shape)
        model = project(known, model, rank=chosen.rank, off_diagonal=off_diagonal)
    return model


def project(rest: Train, model: LowRank, *, rank: int, off_diagonal: np.ndarray | float) -> LowRank:
    """Project Â = model + rest onto the main eigenvectors V of ÂᵀÂ − diag(off_diagonal): ÂVVᵀ.

    [Zhang2006], section 5.1.
    """
    if not (rest if isinstance(rest, np.ndarray) else rest.data).any():
        return model  # the model is exact already
    items = rest.shape[1]
    across = rest.T if isinstance(rest, np.ndarray) else rest.T.tocsr()  # products go along its rows
    diagonal = np.broadcast_to(off_diagonal, (items,))

    def forth(x: np.ndarray) -> np.ndarray:
        return rest @ x + model.left @ (model.right.T @ x)

    def gram(x: np.ndarray) -> np.ndarray:
        y = forth(x)
        return across @ y + model.right @ (model.left.T @ y) - (diagonal * x.T).T

    if items <= max(SMALL, 2 * rank):
        main = scipy.linalg.eigh(gram(np.eye(items)), subset_by_index=(max(0, items - rank), items - 1))[1]
    else:
        # The vectors of the previous round lie near the new ones. In the first round any vector will do but 1,
        # because the z-scores of a user sum to 0.
        near = model.right.sum(axis=1)
        start: np.ndarray = near if near.any() else np.random.default_rng(0).standard_normal((items,))
        operator: Any = LinearOperator((items, items), matvec=gram, dtype=np.float64)
        main = eigsh(operator, rank, v0=start, which="LA", rng=np.random.default_rng(0))[1]
    return LowRank(forth(main), main)
