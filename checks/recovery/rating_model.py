"""Predict people's ratings by a low-rank model of other ratings: the judge's own model of taste.

The judge must not share code with what it judges, hence a fit of its own: alternating least squares, a level and a few
factors per person and item. Two checks use it. link-recovery asks what taste alone suggests: item factors that never
saw a group's members, then each member's own factors by ridge regression; a group of people with a taste did probably
see what that taste suggests, and to publish taste is what a release is for. contributors asks whether a cell holds a
prediction or a rating: it compares cells with honest predictions from the same ratings.

Items with few raters have no factors and no level, as in a release.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

START_SCALE = 0.1
START_PRIOR = 5.0  # ratings' worth of the overall mean in an item's first level


@dataclass(frozen=True)
class Ridge:
    """Hold what pulls factors and levels to zero: so much for each rating, and so much once."""

    factors_each: float
    factors_once: float
    level_each: float
    level_once: float

    @classmethod
    def even(cls, each: float) -> "Ridge":
        """Return the same ridge for factors and levels, which grows with the number of ratings alone."""
        return cls(each, 0.0, each, 0.0)


TASTE_RIDGE = Ridge(0.04, 0.04 * 130, 0.0, 0.04 * 100)  # for a scale that spans 4 units
TASTE_RANK, TASTE_ROUNDS, TASTE_FEWEST = 16, 8, 3


@dataclass(frozen=True)
class RatingModel:
    """Hold a model: rating ≈ overall + level of the person + level of the item + factors of the person · of the item.

    `items` have the factors and, in the last column, the level; `fitted` marks those that took part.
    """

    overall: float
    items: np.ndarray
    fitted: np.ndarray
    ridge: Ridge

    @classmethod
    def fit(
        cls,
        ratings: sp.csr_array,
        rank: int,
        ridge: Ridge,
        *,
        fewest: int,
        rounds: int,
        random: np.random.Generator,
    ) -> "RatingModel":
        """Fit so many factors to people × items; items need `fewest` raters to take part."""
        fitted = np.bincount(ratings.indices, minlength=ratings.shape[1]) >= fewest
        rows = _only_items(ratings, fitted)
        columns = sp.csr_array(rows.T)
        overall = float(rows.data.mean(dtype=np.float64)) if rows.nnz else 0.0
        items = np.zeros((rows.shape[1], rank + 1), np.float32)
        items[:, :-1] = START_SCALE * random.standard_normal((rows.shape[1], rank))
        counts = np.diff(columns.indptr)
        items[:, -1] = (np.asarray(columns.sum(axis=1)).ravel() - counts * overall) / (counts + START_PRIOR)
        items[~fitted] = 0
        for _ in range(rounds):
            items = _solve(columns, overall, _solve(rows, overall, items, ridge), ridge)
        return cls(overall, items, fitted, ridge)

    def people(self, ratings: sp.csr_array) -> np.ndarray:
        """Return factors and level of people, given all their ratings."""
        return _solve(_only_items(ratings, self.fitted), self.overall, self.items, self.ridge)

    def profiles(self, people: np.ndarray) -> np.ndarray:
        """Return the predictions for every item; `people` may be means over groups."""
        people = people.astype(np.float32)
        table = people[:, :-1] @ self.items[:, :-1].T
        table += people[:, -1:] + (self.items[:, -1] + np.float32(self.overall))
        return table

    def cells(self, people: np.ndarray, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return the predictions of some cells of these people, who may be means over groups."""
        guess = self.overall + people[rows, -1] + self.items[items, -1]
        return guess + np.einsum("ij,ij->i", people[rows, :-1], self.items[items, :-1])


def fit_taste(ratings: sp.csr_array, span: float, random: np.random.Generator) -> RatingModel:
    """Fit the model by which link-recovery knows what taste suggests; `span` is the width of the rating scale."""
    ridge = Ridge(*(each * span / 4 for each in vars(TASTE_RIDGE).values()))
    return RatingModel.fit(
        ratings, TASTE_RANK, ridge, fewest=TASTE_FEWEST, rounds=TASTE_ROUNDS, random=random
    )


def _only_items(ratings: sp.csr_array, wanted: np.ndarray) -> sp.csr_array:
    keep = wanted[ratings.indices]
    indptr = np.concatenate([[0], np.cumsum(keep)])[ratings.indptr]
    return sp.csr_array((ratings.data[keep], ratings.indices[keep], indptr), shape=ratings.shape)


def _solve(ratings: sp.csr_array, overall: float, other: np.ndarray, ridge: Ridge) -> np.ndarray:
    """Return one side of the model, given the other; zeros for rows without ratings."""
    out = np.zeros((ratings.shape[0], other.shape[1]), np.float32)
    _solve_rows(
        ratings.indptr.astype(np.int64), ratings.indices.astype(np.int64), ratings.data.astype(np.float32),
        np.ascontiguousarray(other[:, :-1]), (other[:, -1] + overall).astype(np.float32),
        (ridge.factors_each, ridge.factors_once, ridge.level_each, ridge.level_once), out,
    )  # fmt: skip
    return out


@njit(cache=True, nogil=True, fastmath=True)
def _solve_rows(indptr, indices, values, features, offsets, ridge, out):  # type: ignore[no-untyped-def]
    """Solve each row's ridge regression on the features of what it rated, and a constant."""
    rank = features.shape[1]
    factors_each, factors_once, level_each, level_once = ridge
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    known, errors = np.ones((longest, rank + 1)), np.empty(longest)
    for row in range(len(indptr) - 1):
        begin, count = indptr[row], indptr[row + 1] - indptr[row]
        if count == 0:
            continue
        for number in range(count):
            item = indices[begin + number]
            for a in range(rank):
                known[number, a] = features[item, a]
            errors[number] = values[begin + number] - offsets[item]
        own = known[:count]
        gram = own.T @ own  # by BLAS: a sum over the ratings in a loop here takes twice as long
        for a in range(rank):
            gram[a, a] += factors_each * count + factors_once
        gram[rank, rank] += level_each * count + level_once
        out[row] = np.linalg.solve(gram, errors[:count] @ own).astype(np.float32)
