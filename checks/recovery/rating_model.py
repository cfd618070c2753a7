"""Predict people's ratings by a low-rank model of the source: what an honest prediction would be.

A cell that may hold predictions only is compared with the judge's own predictions, which are made from the same ratings
by code of its own: alternating least squares, a level and a few factors per person and item, with a ridge that grows
with the number of ratings. Items with few raters have no factors and no level, as in a release.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

from checks.evidence.seeds import seeded

ROUNDS = 10


@dataclass(frozen=True)
class RatingModel:
    """Hold a model: rating ≈ overall + level of the person + level of the item + factors of the person · of the item.

    `people` and `items` have the level in column 0 and the factors in the others.
    """

    overall: float
    people: np.ndarray
    items: np.ndarray

    @classmethod
    def fitted(cls, ratings: sp.csr_array, rank: int, ridge: float, fewest: int) -> "RatingModel":
        """Fit a model of so many factors to people × items; `ridge` is per rating, and items need `fewest` raters to
        take part."""
        overall = float(ratings.data.mean()) if ratings.nnz else 0.0
        raters = np.bincount(ratings.indices, minlength=ratings.shape[1])
        kept = raters[ratings.indices] >= fewest
        indptr = np.concatenate([[0], np.cumsum(kept)])[ratings.indptr]
        rest = (ratings.data[kept] - overall).astype(np.float64)
        by_person = sp.csr_array((rest, ratings.indices[kept], indptr), shape=ratings.shape)
        by_item = sp.csr_array(by_person.T.tocsr())
        people, items = (np.zeros((count, rank + 1)) for count in ratings.shape)
        items[:, 1:] = seeded("rating model").normal(0, 0.1, (ratings.shape[1], rank))
        items[raters < fewest] = 0
        for _ in range(ROUNDS):
            for matrix, own, other in ((by_person, people, items), (by_item, items, people)):
                _solve(matrix.indptr, matrix.indices, matrix.data, other, ridge, own)
        return cls(overall, people, items)

    def mean_predictions(self, belongs: sp.csr_array, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return the mean prediction of some cells over the people of a group; `belongs` (groups × people) has a 1 for
        every member."""
        number = np.maximum(np.asarray(belongs.sum(axis=1)).ravel(), 1)
        together = (belongs @ self.people) / number[:, None]
        guess = self.overall + together[groups, 0] + self.items[items, 0]
        return guess + np.einsum("ij,ij->i", together[groups, 1:], self.items[items, 1:])


@njit(cache=True, nogil=True)
def _solve(indptr, indices, data, other, ridge, own):  # type: ignore[no-untyped-def]
    """Solve one side of the model, given the other; rows without ratings stay as they are."""
    width = own.shape[1]
    row = np.ones(width)
    for r in range(len(own)):
        first, last = indptr[r], indptr[r + 1]
        if first == last:
            continue
        gram, moment = np.zeros((width, width)), np.zeros(width)
        for place in range(first, last):
            column = indices[place]
            row[1:] = other[column, 1:]
            value = data[place] - other[column, 0]
            for i in range(width):
                moment[i] += row[i] * value
                for j in range(i + 1):
                    gram[i, j] += row[i] * row[j]
        for i in range(width):
            gram[i, i] += ridge * (last - first)
            for j in range(i):
                gram[j, i] = gram[i, j]
        own[r] = np.linalg.solve(gram, moment)
