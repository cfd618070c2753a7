"""Measure how well the rows of a release know a person: signals by which an attacker guesses who was in the data.

Each signal is larger for people whose ratings are in the rows. The attacker knows the person's items and ratings, and
nothing but the rows.

    nearest row            share of (item, rating) pairs in common with the most similar row
    ten nearest rows       mean cosine with the ten most similar rows, items weighted by how rare they are
    what goes together     zᵀCz / |z|²: z the person's items less their frequency, C the rows' correlations
    odd pairs              the same with what remains of C beyond its first directions: a person's own pairs are there
    ratings                how near the person's ratings are to the rows' means of these items
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from checks.synthetic.similarity import nearest, pairs_of

NAMES = ("nearest row", "ten nearest rows", "what goes together", "odd pairs", "ratings")
MOST_ROWS = 20_000  # for comparisons of single rows
DIRECTIONS = 10
AT_ONCE = 512
CLOSEST = 10


@dataclass(frozen=True)
class RowModel:
    """Hold what follows from the rows alone."""

    rows: sp.csr_array
    levels: np.ndarray

    @cached_property
    def frequency(self) -> np.ndarray:
        """The share of the rows that have each item, never 0 nor 1."""
        rows = self.rows.shape[0]
        return (np.bincount(self.rows.indices, minlength=self.rows.shape[1]) + 0.5) / (rows + 1)

    @cached_property
    def some(self) -> sp.csr_array:
        """The rows that single comparisons use: the rows of a release have no order that means anything."""
        return sp.csr_array(self.rows[:MOST_ROWS])

    @cached_property
    def correlation(self) -> np.ndarray:
        """The correlations among items, 0 on the diagonal."""
        pattern = _pattern(self.rows)
        together = np.asarray((pattern.T @ pattern).todense(), np.float64) / max(1, self.rows.shape[0])
        spread = np.sqrt(self.frequency * (1 - self.frequency))
        found = (together - np.outer(self.frequency, self.frequency)) / np.outer(spread, spread)
        np.fill_diagonal(found, 0)
        return found.astype(np.float32)

    @cached_property
    def beyond(self) -> np.ndarray:
        """The correlations without their first directions, 0 on the diagonal."""
        values, vectors = np.linalg.eigh(self.correlation)
        first = np.argsort(-np.abs(values))[:DIRECTIONS]
        rest = self.correlation - (vectors[:, first] * values[first]) @ vectors[:, first].T
        np.fill_diagonal(rest, 0)
        return rest

    @cached_property
    def item_means(self) -> np.ndarray:
        """The mean rating of each item among the rows; the overall mean where no row has it."""
        width = self.rows.shape[1]
        counts = np.bincount(self.rows.indices, minlength=width)
        sums = np.bincount(self.rows.indices, weights=self.rows.data, minlength=width)
        overall = sums.sum() / max(1, counts.sum())
        return np.where(counts > 0, sums / np.maximum(counts, 1), overall)


def measure(model: RowModel, people: sp.csr_array) -> np.ndarray:
    """Return the signals of these people, a row each."""
    found = np.zeros((people.shape[0], len(NAMES)))
    found[:, 0] = nearest(pairs_of(people, model.levels), pairs_of(model.some, model.levels))
    for start in range(0, people.shape[0], AT_ONCE):
        part = slice(start, min(start + AT_ONCE, people.shape[0]))
        found[part, 1:4] = _by_items(model, sp.csr_array(people[part]))
    owner = np.repeat(np.arange(people.shape[0]), np.diff(people.indptr))
    off = np.bincount(
        owner, weights=np.abs(people.data - model.item_means[people.indices]), minlength=people.shape[0]
    )
    found[:, 4] = -off / np.maximum(np.diff(people.indptr), 1)
    return found


def _by_items(model: RowModel, people: sp.csr_array) -> np.ndarray:
    own = _pattern(people).toarray()
    weights = np.log(1 / model.frequency).astype(np.float32)
    rows = _pattern(model.some)
    weighted = own * weights
    norms = np.sqrt(rows @ weights**2)
    cosines = (rows @ (weighted * weights).T).T / np.maximum(norms, 1e-9)
    cosines /= np.maximum(np.linalg.norm(weighted, axis=1), 1e-9)[:, None]
    closest = min(CLOSEST, cosines.shape[1])
    ten = np.partition(cosines, cosines.shape[1] - closest, axis=1)[:, -closest:].mean(axis=1)
    spread = np.sqrt(model.frequency * (1 - model.frequency))
    z = ((own - model.frequency) / spread).astype(np.float32)
    norm = np.maximum((z**2).sum(axis=1), 1e-9)
    forms = [((z @ matrix) * z).sum(axis=1) / norm for matrix in (model.correlation, model.beyond)]
    return np.column_stack([ten, *forms])


def _pattern(ratings: sp.csr_array) -> sp.csr_array:
    ones = np.ones(ratings.nnz, np.float32)
    return sp.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)
