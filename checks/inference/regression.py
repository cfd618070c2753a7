"""Infer by logistic regression, balanced between the classes: the inferrer of [RFPP], section 4, and variants of it.

On sparse records: the rating vectors as they are with C = 0.01 (the paper's); the same with all records of one length,
which reveals more (MovieLens 1M raw: 0.79 instead of 0.77); which items are present at all; and where additions can be
recognized by their values, the records without them and the additions alone. Single people's records need a weaker
ridge than those of groups, which have more items and are fewer, so both are tried (simple groups of five: 0.64 and
0.66).

On dense records the leading components stand for the items. Nothing is lost by it: regression with a ridge is the same
in any rotation, and a direction with little variance λ gets a weight of about C·n·λ of the unpenalized one. Profiles
are predictions of a model of some rank, so behind the leading components there is rounding: λ ≈ 0.003 on MovieLens 1M,
C·n·λ/4 < 0.05. A single item that was marked on purpose would be lost; so the items that separate the classes best
beyond the components are added.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from checks.inference.components import Matrix, lengths
from checks.inference.records import Records
from checks.inference.training_data import Scorer, TrainingSet, dense_columns, distinguishing_items

PAPERS_C = 0.01
EQUAL_LENGTHS_C = 3.0
EQUAL_LENGTHS_STRONG_C = 0.5
ITEMS_C = 0.02
ITEMS_STRONG_C = 0.001
STANDARDISED_C = 0.03
DISTINGUISHING_ITEMS = 100
ROUNDS = 300


def on_ratings(records: Records, training: TrainingSet) -> Scorer:
    """Learn from the values as they are, 0 where there is none."""
    return _linear(lambda some: some.matrix, records, training, PAPERS_C)


def on_equal_lengths(records: Records, training: TrainingSet) -> Scorer:
    """Learn from every record divided by its length."""
    return _linear(lambda some: _scaled(some.matrix), records, training, EQUAL_LENGTHS_C)


def on_equal_lengths_strongly(records: Records, training: TrainingSet) -> Scorer:
    """Learn from records of equal length with a stronger ridge."""
    return _linear(lambda some: _scaled(some.matrix), records, training, EQUAL_LENGTHS_STRONG_C)


def on_items(records: Records, training: TrainingSet) -> Scorer:
    """Learn from which items are present."""
    return _linear(lambda some: _ones(some.matrix), records, training, ITEMS_C)


def on_items_strongly(records: Records, training: TrainingSet) -> Scorer:
    """Learn from which items are present with a stronger ridge."""
    return _linear(lambda some: _ones(some.matrix), records, training, ITEMS_STRONG_C)


def on_unmarked_values(records: Records, training: TrainingSet) -> Scorer:
    """Learn from the records without the values that no person gives."""
    return _linear(lambda some: _scaled(some.unmarked_values), records, training, EQUAL_LENGTHS_C)


def on_marked_values(records: Records, training: TrainingSet) -> Scorer:
    """Learn from which items have a value that no person gives."""
    return _linear(lambda some: _ones(some.marked_values), records, training, ITEMS_C)


def on_components(records: Records, training: TrainingSet) -> Scorer:
    """Learn from the components of dense records and the items that separate the classes best beyond them."""
    return _on_features(records, training, PAPERS_C, standardised=False)


def on_standardised(records: Records, training: TrainingSet) -> Scorer:
    """Learn from components and items scaled to equal deviation: small ones may separate as well."""
    return _on_features(records, training, STANDARDISED_C, standardised=True)


def _linear(view: Callable[[Records], Matrix], records: Records, training: TrainingSet, c: float) -> Scorer:
    plane = fit(_narrow(view(records)[training.rows]), training, c)
    return lambda some: plane.of(view(some))


def _on_features(records: Records, training: TrainingSet, c: float, *, standardised: bool) -> Scorer:
    items = distinguishing_items(records, training, DISTINGUISHING_ITEMS)

    def features(some: Records) -> np.ndarray:
        return np.hstack([records.components.of(some.matrix), dense_columns(some.matrix, items)])

    known = features(records)
    centre = known.mean(axis=0)
    scale = np.maximum(known.std(axis=0), 1e-6) if standardised else np.ones(known.shape[1])
    plane = fit(((known - centre) / scale)[training.rows], training, c)
    return lambda some: plane.of((features(some) - centre) / scale)


@dataclass(frozen=True)
class Plane:
    """Represent a linear score."""

    weights: np.ndarray
    offset: float

    def of(self, matrix: Matrix) -> np.ndarray:
        """Return the score of every row."""
        return np.asarray(matrix @ self.weights) + self.offset


def fit(features: Matrix, training: TrainingSet, c: float) -> Plane:
    """Fit logistic regression with a ridge: ½|w|² + C Σ weight · loss. `features` are the training rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    solver = "lbfgs" if sp.issparse(features) else "newton-cholesky"
    model = LogisticRegression(C=c, solver=solver, max_iter=ROUNDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a nearly converged attacker attacks as well
        model.fit(features, training.inside, sample_weight=training.weights)
    return Plane(model.coef_[0].astype(np.float32), float(model.intercept_[0]))


def _scaled(matrix: Matrix) -> Matrix:
    size = np.maximum(lengths(matrix), 1e-9).astype(np.float32)
    if isinstance(matrix, np.ndarray):
        return matrix / size[:, None]
    data = matrix.data / np.repeat(size, np.diff(matrix.indptr))
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _ones(matrix: Matrix) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return np.ones_like(matrix)
    return sp.csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)


def _narrow(matrix: Matrix) -> Matrix:
    """Convert indices to 32 bits: the solvers accept no others."""
    if isinstance(matrix, np.ndarray):
        return matrix
    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_array((matrix.data, indices, indptr), shape=matrix.shape)
