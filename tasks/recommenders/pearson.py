"""Predict by correlation-based collaborative filtering on disguised data ([PolatDu2003], after [Herlocker1999]).

The prediction for user a and item q is Σᵤ w(a,u)·z(u,q) / Σᵤ |w(a,u)| over the others u who rated q, with the
correlation w(a,u) = Σᵢ z(a,i)·z(u,i) over the items both rated. The server has the others' z-scores disguised; a user
multiplies by her own, `own`, which she need not disguise to herself. Where no comparable user rated q, it is 0: the
user's mean.

[PolatDu2003] writes the denominator without | |. That is near 0 where positive and negative correlations balance, and
the prediction is then arbitrary (docs/decisions/0012-p1.md).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Recommender
from tasks.recommenders._cells import pick

RECOMMENDER = Recommender(compared=False)  # it serves the study of [Zhang2006]
BLOCK_CELLS = 4_000_000  # of the three dense arrays that a block of users needs


@dataclass(frozen=True)
class Correlations:
    """Hold the others' z-scores by user and by item, who rated what, and every user's own z-scores."""

    own: sp.csr_array
    others: sp.csr_array
    by_item: sp.csr_array
    raters: sp.csr_array

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predict the z-scores of every item."""
        weight = (self.others @ self.own[users].T).toarray()
        weight[users, np.arange(len(users))] = 0  # no user is the own neighbour
        total = self.raters @ np.abs(weight)
        weighted = self.by_item @ weight
        return np.divide(weighted, total, out=np.zeros_like(weighted), where=total > 0).T

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict the z-scores of single cells, a block of users at a time."""
        return pick(self.rows, users, items, at_once=max(1, BLOCK_CELLS // max(self.others.shape)))


def fit(train: sp.csr_array, own: sp.csr_array | None = None) -> Correlations:
    """Store the data; correlations are computed when a prediction is requested."""
    by_item = train.T.tocsr()
    raters = sp.csr_array((np.ones(by_item.nnz), by_item.indices, by_item.indptr), shape=by_item.shape)
    return Correlations(train if own is None else own, train, by_item, raters)
