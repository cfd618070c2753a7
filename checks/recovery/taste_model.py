"""Predict people's ratings from other people's ratings alone: the judge's own model of taste.

A group of people with a taste did probably see what that taste suggests, and to publish taste is what a release is for.
So what an attack finds is compared with what it finds in profiles that were predicted by item factors which never saw
the group's members: alternating least squares on other people, then each member's own factors by ridge regression. The
judge must not share code with what it judges, hence a fit of its own.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

RANK = 16
ITERATIONS = 8
SHRINKAGE = 0.04  # per rating, and PRIOR ratings' worth of it for everybody; for a scale that spans 4 units
PRIOR = 130.0
BIAS_PRIOR = 100.0
FEWEST_RATERS = 3  # of an item, in the fit; items with fewer have no factors
START_SCALE = 0.1


@dataclass(frozen=True)
class TasteModel:
    """Hold item factors: prediction = mean + [factors, bias] of a person · [item's factors, 1] + the item's bias."""

    mean: float
    factors: np.ndarray
    bias: np.ndarray
    fitted: np.ndarray  # which items have factors
    shrinkage: float

    def people(self, ratings: sp.csr_array) -> np.ndarray:
        """Return [factors, bias] of people, given all their ratings."""
        part = _only_items(ratings, self.fitted)
        offsets = (self.bias + self.mean).astype(np.float32)
        return _solve(part.indptr, part.indices, part.data, self.factors, offsets, self.shrinkage)

    def profiles(self, people: np.ndarray) -> np.ndarray:
        """Return the predictions for every item; `people` may be means over groups."""
        table = people[:, :-1].astype(np.float32) @ self.factors.T
        table += people[:, -1:].astype(np.float32) + (self.bias + self.mean).astype(np.float32)
        return table


def fit_taste(ratings: sp.csr_array, span: float, random: np.random.Generator) -> TasteModel:
    """Fit item factors on these people's ratings; `span` is the width of the rating scale."""
    shrinkage = SHRINKAGE * span / 4
    fitted = np.bincount(ratings.indices, minlength=ratings.shape[1]) >= FEWEST_RATERS
    rows = _only_items(ratings, fitted)
    columns = sp.csr_array(rows.T)
    mean = float(rows.data.mean(dtype=np.float64)) if rows.nnz else 0.0
    factors = (START_SCALE * random.standard_normal((rows.shape[1], RANK))).astype(np.float32)
    counts = np.diff(columns.indptr)
    bias = (np.asarray(columns.sum(axis=1)).ravel() - counts * mean) / (counts + 5.0)
    model = TasteModel(mean, factors, bias.astype(np.float32), fitted, shrinkage)
    for _ in range(ITERATIONS):
        people = model.people(rows)
        offsets = (people[:, -1] + mean).astype(np.float32)
        features = np.ascontiguousarray(people[:, :-1])
        items = _solve(columns.indptr, columns.indices, columns.data, features, offsets, shrinkage)
        items[~fitted] = 0
        model = TasteModel(mean, np.ascontiguousarray(items[:, :-1]), items[:, -1].copy(), fitted, shrinkage)
    return model


def _only_items(ratings: sp.csr_array, wanted: np.ndarray) -> sp.csr_array:
    keep = wanted[ratings.indices]
    indptr = np.concatenate([[0], np.cumsum(keep)])[ratings.indptr]
    return sp.csr_array((ratings.data[keep], ratings.indices[keep], indptr), shape=ratings.shape)


def _solve(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    features: np.ndarray,
    offsets: np.ndarray,
    shrinkage: float,
) -> np.ndarray:
    out = np.zeros((len(indptr) - 1, features.shape[1] + 1), np.float32)
    _solve_rows(
        indptr.astype(np.int64), indices.astype(np.int64), values.astype(np.float32), features, offsets,
        shrinkage, out,
    )  # fmt: skip
    return out


@njit(cache=True, nogil=True, fastmath=True)
def _solve_rows(indptr, indices, values, features, offsets, shrinkage, out):  # type: ignore[no-untyped-def]
    """Solve each row's ridge regression on the features of what it rated, and a constant."""
    rank = features.shape[1]
    width = rank + 1
    gram, right, own = np.empty((width, width)), np.empty(width), np.ones(width, np.float32)
    for row in range(len(indptr) - 1):
        count = indptr[row + 1] - indptr[row]
        if count == 0:
            continue
        gram[:], right[:] = 0.0, 0.0
        for place in range(indptr[row], indptr[row + 1]):
            item = indices[place]
            own[:rank] = features[item]
            error = values[place] - offsets[item]
            for a in range(width):
                right[a] += own[a] * error
                for b in range(a + 1):
                    gram[a, b] += own[a] * own[b]
        for a in range(width):
            for b in range(a):
                gram[b, a] = gram[a, b]
            gram[a, a] += shrinkage * (count + PRIOR) if a < rank else shrinkage * BIAS_PRIOR
        out[row] = np.linalg.solve(gram, right).astype(np.float32)
