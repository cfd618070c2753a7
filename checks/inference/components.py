"""The leading components of records: what most of them have in common, in a few numbers each.

Of sparse records after giving each the same length (who rated much is not different for that); of dense ones around
their mean. Orthogonal iteration, so that a matrix is only ever multiplied: it may lie in a file.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from checks.seeds import seeded

Matrix = sp.csr_array | np.ndarray

ROUNDS = 5
OVERSAMPLE = 8


@dataclass(frozen=True)
class Components:
    """`basis` (items × components) is orthonormal; `centre` is what dense records are measured from, nothing where
    each record is divided by its length instead. `left` is the variance of each item that they do not explain."""

    basis: np.ndarray
    centre: np.ndarray | None
    left: np.ndarray

    def of(self, matrix: Matrix) -> np.ndarray:
        """The components of these records (items as here)."""
        scores = matrix @ self.basis
        if self.centre is None:
            return scores / np.maximum(lengths(matrix), 1e-9)[:, None]
        return scores - self.centre @ self.basis

    def save(self, place: Path) -> None:
        """Into files of this directory."""
        np.save(place / "basis.npy", self.basis)
        np.save(place / "left.npy", self.left)
        if self.centre is not None:
            np.save(place / "centre.npy", self.centre)

    @classmethod
    def load(cls, place: Path) -> "Components":
        """From those files."""
        centre = place / "centre.npy"
        return cls(
            np.load(place / "basis.npy"),
            np.load(centre) if centre.exists() else None,
            np.load(place / "left.npy"),
        )


def lengths(matrix: Matrix) -> np.ndarray:
    """Euclidean length of every record."""
    if sp.issparse(matrix):
        return np.sqrt(matrix.power(2).sum(axis=1))
    return np.sqrt(np.einsum("ij,ij->i", matrix, matrix))


def leading(matrix: Matrix, count: int) -> Components:
    """At most so many components."""
    rows, items = matrix.shape
    width = min(count + OVERSAMPLE, rows, items)
    start = seeded("components").standard_normal((items, width)).astype(np.float32)
    centre = None if sp.issparse(matrix) else matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
    if not width:
        return Components(start, centre, np.zeros(items, np.float32))
    turned = Components(np.linalg.qr(start)[0], centre, np.zeros(0))
    for _ in range(ROUNDS):
        turned = Components(np.linalg.qr(_back(matrix, turned.of(matrix), centre))[0], centre, np.zeros(0))
    scores = turned.of(matrix)
    strength, vectors = np.linalg.eigh((scores.T @ scores).astype(np.float64))
    best = np.argsort(strength)[::-1][: min(count, width)]
    basis = (turned.basis @ vectors[:, best].astype(np.float32)).astype(np.float32)
    left = _variance(matrix)
    if centre is not None:
        left = left - (basis.astype(np.float64) ** 2) @ (strength[best] / max(1, rows))
    return Components(basis, centre, np.maximum(left, 0).astype(np.float32))


def _back(matrix: Matrix, scores: np.ndarray, centre: np.ndarray | None) -> np.ndarray:
    """Transposed matrix (centred, or of equal lengths) × scores."""
    if centre is None:
        return matrix.T @ (scores / np.maximum(lengths(matrix), 1e-9)[:, None]).astype(np.float32)
    return matrix.T @ scores - np.outer(centre, scores.sum(axis=0))


def _variance(matrix: Matrix) -> np.ndarray:
    """Variance of every item's values over the records, 0 where it is not there."""
    rows = max(1, matrix.shape[0])
    if sp.issparse(matrix):
        return matrix.power(2).sum(axis=0) / rows - (matrix.sum(axis=0) / rows) ** 2
    squares = np.einsum("ij,ij->j", matrix, matrix, dtype=np.float64)
    return squares / rows - matrix.mean(axis=0, dtype=np.float64) ** 2
