"""Fit item-based neighbourhoods ([Sarwar2001]): score items by their similarity to a user's items.

Ratings: a row's deviations from its biases, averaged over the items most similar to the predicted one. Similarity is
the cosine of the items' deviations, shrunk where few users know both. Items are ranked by how similar they are to the
items of the row; where every cell has a value, by the predicted value.
"""

import numpy as np

from tasks.recommenders import Recommender, Train, bias
from tasks.recommenders._cells import dense, gram, keep_largest, mask_of, weights_of
from tasks.recommenders._items import ItemToItem

RECOMMENDER = Recommender(compared=True, position=40)
NEIGHBOURS = 100
DOUBT = 50.0  # weight, in users, of the shrinkage of a similarity
LITTLE = 0.5  # weight, in similarity, of the shrinkage of an average of few neighbours


class ItemKnn(ItemToItem):
    """Hold as weights the similarities of each item's neighbours, 0 elsewhere; deviations are averaged over them."""

    def _deviations(self, users: np.ndarray) -> np.ndarray:
        known = self.ratings.sum(axis=0)
        if self.listed is not None:
            known = dense(self.listed, users) @ self.ratings
        return super()._deviations(users) / (known + np.float32(LITTLE))


def fit(
    train: Train, weights: np.ndarray | None = None, *, neighbours: int = NEIGHBOURS, doubt: float = DOUBT
) -> ItemKnn:
    """Compute cosines from Gram matrices."""
    people = weights_of(train, weights)
    base = bias.fit(train, people)
    residuals = base.residuals(train)
    listed = mask_of(train)
    together, company = people.sum(), None
    if listed is not None:
        together = gram(listed, people)
        company = _nearest(_cosines(together), neighbours)
    similar = _cosines(gram(residuals, people)) * (together / (together + doubt))
    return ItemKnn(base, residuals, _nearest(similar, neighbours), listed, company)


def _cosines(of: np.ndarray) -> np.ndarray:
    length = np.sqrt(np.diag(of))
    length[length == 0] = 1
    return of / length / length[:, None]


def _nearest(similar: np.ndarray, neighbours: int) -> np.ndarray:
    np.fill_diagonal(similar, 0)
    np.maximum(similar, 0, out=similar)
    keep_largest(similar, neighbours)
    return np.ascontiguousarray(similar.T, np.float32)
