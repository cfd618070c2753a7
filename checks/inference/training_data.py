"""What an inferrer learns from: records and whether their people are of the class."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checks.inference.components import Matrix
from checks.inference.records import Records

LEAST_VARIANCE = 1e-4  # below it an item's values are all alike, and rounding would look like news

Learnt = Callable[[Records], np.ndarray]  # a score for every record; higher: of the class


@dataclass(frozen=True)
class Lesson:
    """`rows` of records with `inside` (of the class or not) and how much each counts; people with the same record and
    class are one entry. Both classes count alike."""

    rows: np.ndarray
    inside: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, inside: np.ndarray) -> "Lesson":
        """From one entry per person."""
        key, people = np.unique(rows * 2 + inside, return_counts=True)
        row, of_class = key // 2, key % 2 == 1
        weights = people.astype(np.float64)
        for who in (of_class, ~of_class):
            weights[who] *= len(rows) / 2 / max(1.0, weights[who].sum())
        return cls(row, of_class, weights)


def telling(records: Records, lesson: Lesson, count: int) -> np.ndarray:
    """The items in which the two classes differ most, by their difference in standard deviations; of dense records,
    beyond what the components already tell. Learnt from the lesson's people alone."""
    signed = np.zeros(records.matrix.shape[0])
    total = lesson.weights[lesson.inside].sum()
    np.add.at(signed, lesson.rows, np.where(lesson.inside, 1, -1) * lesson.weights / max(total, 1e-12))
    apart = _across(records.matrix, signed)
    components = records.components
    if components.centre is not None:
        apart -= (signed @ components.of(records.matrix)) @ components.basis.T
    strength = np.abs(apart) / np.sqrt(np.maximum(components.left, LEAST_VARIANCE))
    return np.sort(np.argsort(-strength, kind="stable")[:count])


def _across(matrix: Matrix, signed: np.ndarray) -> np.ndarray:
    return matrix.T @ signed.astype(np.float32)


def columns(matrix: Matrix, items: np.ndarray) -> np.ndarray:
    """Some items of every record, as a table."""
    return matrix[:, items] if isinstance(matrix, np.ndarray) else matrix[:, items].toarray()
