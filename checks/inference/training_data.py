"""Represent what an inferrer learns from: records, and whether their people belong to the class."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checks.inference.components import Matrix
from checks.inference.records import Records

LEAST_VARIANCE = 1e-4  # below it an item's values are all equal, and rounding would look like a difference

Scorer = Callable[[Records], np.ndarray]  # returns a score for every record; higher: of the class


@dataclass(frozen=True)
class TrainingSet:
    """Hold `rows` of records with `inside` (of the class or not) and the weight of each.

    People with the same record and class are one entry. Both classes have the same total weight.
    """

    rows: np.ndarray
    inside: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, inside: np.ndarray) -> "TrainingSet":
        """Build the set from one entry per person."""
        key, people = np.unique(rows * 2 + inside, return_counts=True)
        row, of_class = key // 2, key % 2 == 1
        weights = people.astype(np.float64)
        for who in (of_class, ~of_class):
            weights[who] *= len(rows) / 2 / max(1.0, weights[who].sum())
        return cls(row, of_class, weights)


def distinguishing_items(records: Records, training: TrainingSet, count: int) -> np.ndarray:
    """Return the items in which the two classes differ most, by their difference in standard deviations.

    For dense records, beyond what the components already explain. Learned from the training people alone.
    """
    signed = np.zeros(records.matrix.shape[0])
    total = training.weights[training.inside].sum()
    np.add.at(signed, training.rows, np.where(training.inside, 1, -1) * training.weights / max(total, 1e-12))
    apart = _across(records.matrix, signed)
    components = records.components
    if components.centre is not None:
        apart -= (signed @ components.of(records.matrix)) @ components.basis.T
    strength = np.abs(apart) / np.sqrt(np.maximum(components.left, LEAST_VARIANCE))
    return np.sort(np.argsort(-strength, kind="stable")[:count])


def _across(matrix: Matrix, signed: np.ndarray) -> np.ndarray:
    return matrix.T @ signed.astype(np.float32)


def dense_columns(matrix: Matrix, items: np.ndarray) -> np.ndarray:
    """Return some items of every record as a table."""
    return matrix[:, items] if isinstance(matrix, np.ndarray) else matrix[:, items].toarray()
