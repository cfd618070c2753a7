"""Correlation-based collaborative filtering on disguised data (paper 001's [17], after its [13]).

The prediction for person a and item q is Σᵤ w(a,u)·z(u,q) / Σᵤ |w(a,u)| over the others u who rated q, with the
correlation w(a,u) = Σᵢ z(a,i)·z(u,i) over the items both rated. The server has the others' z-scores disguised; a person
multiplies by her own, `own`, which she need not disguise to herself. Where nobody comparable rated q, it is 0: the
person's mean.

[17] writes the denominator without | |. That is near 0 where friends and opposites balance, and then a prediction is
anything at all (docs/decisions/0012-p1.md).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.recommenders._cells import pick

BLOCK_CELLS = 4_000_000  # of the three dense arrays that a block of people needs


@dataclass(frozen=True)
class Correlations:
    """The others' z-scores by person and by item, who rated what, and everybody's own z-scores."""

    own: sp.csr_array
    others: sp.csr_array
    by_item: sp.csr_array
    raters: sp.csr_array

    def rows(self, users: np.ndarray) -> np.ndarray:
        """z-scores of every item."""
        weight = (self.others @ self.own[users].T).toarray()
        weight[users, np.arange(len(users))] = 0  # nobody is their own neighbour
        total = self.raters @ np.abs(weight)
        weighted = self.by_item @ weight
        return np.divide(weighted, total, out=np.zeros_like(weighted), where=total > 0).T

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """z-scores of single cells, a block of people at a time."""
        return pick(self.rows, users, items, at_once=max(1, BLOCK_CELLS // max(self.others.shape)))


def fit(train: sp.csr_array, own: sp.csr_array | None = None) -> Correlations:
    """Nothing is learnt beforehand: the weights are those of the moment."""
    by_item = train.T.tocsr()
    raters = sp.csr_array((np.ones(by_item.nnz), by_item.indices, by_item.indptr), shape=by_item.shape)
    return Correlations(train if own is None else own, train, by_item, raters)
