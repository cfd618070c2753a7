"""Logistic regression, balanced between the classes: the paper's inferrer (004, section 4), and variants of it.

On sparse records: the rating vectors as they stand with C = 0.01 (the paper's); the same with all records of one
length, which tells more (MovieLens 1M raw: 0.79 instead of 0.77); which items are there at all; and where additions
can be recognised by their values, the records without them and they alone. Single people's records bear a weaker ridge
than those of groups, which have more items and are fewer, so both are tried (simple groups of five: 0.64 and 0.66).

On dense records the leading components stand for the items. Nothing is lost by it: regression with a ridge is the same
in any rotation, and a direction with little variance λ gets a weight of about C·n·λ of what it deserves. Profiles are
predictions of a model of some rank, so behind the leading components there is rounding: λ ≈ 0.003 on MovieLens 1M,
C·n·λ/4 < 0.05. A single item that was marked on purpose would be lost; so the items that tell most beyond the
components are added.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from checks.inference.components import Matrix, lengths
from checks.inference.lesson import Learnt, Lesson, columns, telling
from checks.inference.records import Records

PAPERS_C = 0.01
EQUAL_LENGTHS_C = 3.0
EQUAL_LENGTHS_STRONG_C = 0.5
ITEMS_C = 0.02
ITEMS_STRONG_C = 0.001
STANDARDISED_C = 0.03
TELLING_ITEMS = 100
ROUNDS = 300


def on_ratings(records: Records, lesson: Lesson) -> Learnt:
    """The values as they stand, 0 where there is none."""
    return _linear(lambda some: some.matrix, records, lesson, PAPERS_C)


def on_equal_lengths(records: Records, lesson: Lesson) -> Learnt:
    """Every record divided by its length."""
    return _linear(lambda some: _scaled(some.matrix), records, lesson, EQUAL_LENGTHS_C)


def on_equal_lengths_strongly(records: Records, lesson: Lesson) -> Learnt:
    """The same with a stronger ridge."""
    return _linear(lambda some: _scaled(some.matrix), records, lesson, EQUAL_LENGTHS_STRONG_C)


def on_items(records: Records, lesson: Lesson) -> Learnt:
    """Which items are there."""
    return _linear(lambda some: _ones(some.matrix), records, lesson, ITEMS_C)


def on_items_strongly(records: Records, lesson: Lesson) -> Learnt:
    """The same with a stronger ridge."""
    return _linear(lambda some: _ones(some.matrix), records, lesson, ITEMS_STRONG_C)


def on_own(records: Records, lesson: Lesson) -> Learnt:
    """The records without the values that nobody gives."""
    return _linear(lambda some: _scaled(some.own), records, lesson, EQUAL_LENGTHS_C)


def on_foreign(records: Records, lesson: Lesson) -> Learnt:
    """Which items have a value that nobody gives."""
    return _linear(lambda some: _ones(some.foreign), records, lesson, ITEMS_C)


def on_components(records: Records, lesson: Lesson) -> Learnt:
    """Components of dense records and the items that tell most beyond them."""
    return _on_features(records, lesson, PAPERS_C, standardised=False)


def on_standardised(records: Records, lesson: Lesson) -> Learnt:
    """The same with all components and items of one spread: small ones may tell as much."""
    return _on_features(records, lesson, STANDARDISED_C, standardised=True)


def _linear(view: Callable[[Records], Matrix], records: Records, lesson: Lesson, c: float) -> Learnt:
    plane = fit(_narrow(view(records)[lesson.rows]), lesson, c)
    return lambda some: plane.of(view(some))


def _on_features(records: Records, lesson: Lesson, c: float, *, standardised: bool) -> Learnt:
    items = telling(records, lesson, TELLING_ITEMS)

    def features(some: Records) -> np.ndarray:
        return np.hstack([records.components.of(some.matrix), columns(some.matrix, items)])

    known = features(records)
    centre = known.mean(axis=0)
    scale = np.maximum(known.std(axis=0), 1e-6) if standardised else np.ones(known.shape[1])
    plane = fit(((known - centre) / scale)[lesson.rows], lesson, c)
    return lambda some: plane.of((features(some) - centre) / scale)


@dataclass(frozen=True)
class Plane:
    """A linear score."""

    weights: np.ndarray
    offset: float

    def of(self, matrix: Matrix) -> np.ndarray:
        """The score of every row."""
        return np.asarray(matrix @ self.weights) + self.offset


def fit(features: Matrix, lesson: Lesson, c: float) -> Plane:
    """Logistic regression with a ridge: ½|w|² + C Σ weight · loss. `features` are the lesson's rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    solver = "lbfgs" if sp.issparse(features) else "newton-cholesky"
    model = LogisticRegression(C=c, solver=solver, max_iter=ROUNDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a nearly converged attacker is one, too
        model.fit(features, lesson.inside, sample_weight=lesson.weights)
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
    """Whole numbers of 32 bits: the solvers take no others."""
    if isinstance(matrix, np.ndarray):
        return matrix
    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_array((matrix.data, indices, indptr), shape=matrix.shape)
