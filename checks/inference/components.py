"""Compute the leading components of records, which describe each record in a few numbers.

Sparse records are first scaled to the same length, so that people who rated much do not differ for that; dense ones are
centred. Orthogonal iteration only ever multiplies the matrix, which may therefore lie in a file.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from checks.evidence.seeds import seeded
from checks.recovery.subspace import iterate, orthonormal, strongest

Matrix = sp.csr_array | np.ndarray

ROUNDS = 5
OVERSAMPLE = 8


@dataclass(frozen=True)
class Components:
    """Hold components: an orthonormal `basis` (items × components), the `centre` that is subtracted from dense records
    (None where each record is divided by its length instead), and the variance `left` of each item that they do not
    explain."""

    basis: np.ndarray
    centre: np.ndarray | None
    left: np.ndarray

    def of(self, matrix: Matrix) -> np.ndarray:
        """Return the components of some records, which must have the same items."""
        scores = matrix @ self.basis
        if self.centre is None:
            return scores / np.maximum(lengths(matrix), 1e-9)[:, None]
        return scores - self.centre @ self.basis

    def save(self, place: Path) -> None:
        """Write the components to files in a directory."""
        np.save(place / "basis.npy", self.basis)
        np.save(place / "left.npy", self.left)
        if self.centre is not None:
            np.save(place / "centre.npy", self.centre)

    @classmethod
    def load(cls, place: Path) -> "Components":
        """Read the components that `save` wrote."""
        centre = place / "centre.npy"
        return cls(
            np.load(place / "basis.npy"),
            np.load(centre) if centre.exists() else None,
            np.load(place / "left.npy"),
        )


def lengths(matrix: Matrix) -> np.ndarray:
    """Return the Euclidean length of every record."""
    if sp.issparse(matrix):
        return np.sqrt(matrix.power(2).sum(axis=1))
    return np.sqrt(np.einsum("ij,ij->i", matrix, matrix))


def leading(matrix: Matrix, count: int) -> Components:
    """Compute at most `count` components."""
    rows, items = matrix.shape
    width = min(count + OVERSAMPLE, rows, items)
    start = seeded("components").standard_normal((items, width)).astype(np.float32)
    centre = None if sp.issparse(matrix) else matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
    if not width:
        return Components(start, centre, np.zeros(items, np.float32))

    def scores_on(basis: np.ndarray) -> np.ndarray:
        return Components(basis, centre, np.zeros(0)).of(matrix)

    turned = iterate(lambda basis: _back(matrix, scores_on(basis), centre), orthonormal(start), ROUNDS)
    scores = scores_on(turned)
    strength, vectors = strongest(scores.T @ scores, min(count, width))
    basis = (turned @ vectors.astype(np.float32)).astype(np.float32)
    left = _variance(matrix)
    if centre is not None:
        left = left - (basis.astype(np.float64) ** 2) @ (strength / max(1, rows))
    return Components(basis, centre, np.maximum(left, 0).astype(np.float32))


def _back(matrix: Matrix, scores: np.ndarray, centre: np.ndarray | None) -> np.ndarray:
    """Multiply the transposed matrix (centred, or of equal lengths) by scores."""
    if centre is None:
        return matrix.T @ (scores / np.maximum(lengths(matrix), 1e-9)[:, None]).astype(np.float32)
    return matrix.T @ scores - np.outer(centre, scores.sum(axis=0))


def _variance(matrix: Matrix) -> np.ndarray:
    """Return the variance of every item's values over the records; a missing value counts as 0."""
    rows = max(1, matrix.shape[0])
    if sp.issparse(matrix):
        return matrix.power(2).sum(axis=0) / rows - (matrix.sum(axis=0) / rows) ** 2
    squares = np.einsum("ij,ij->j", matrix, matrix, dtype=np.float64)
    return squares / rows - matrix.mean(axis=0, dtype=np.float64) ** 2
