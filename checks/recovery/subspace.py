"""Find the main directions of a matrix by subspace iteration (also called orthogonal iteration).

Nothing of the size of the Gram matrix (columns²) is ever made. A caller passes a function that multiplies the Gram
matrix with a basis, so it may stream its matrix from a file, fill it in on the way, weight its rows or centre it.
"""

from collections.abc import Callable

import numpy as np


def random_basis(random: np.random.Generator, columns: int, width: int) -> np.ndarray:
    """Return a random orthonormal basis to start from; the directions that are found do not depend on it."""
    return orthonormal(random.standard_normal((columns, width)))


def orthonormal(vectors: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the space that the columns span."""
    return np.linalg.qr(vectors)[0]


def iterate(multiply: Callable[[np.ndarray], np.ndarray], basis: np.ndarray, rounds: int) -> np.ndarray:
    """Turn a basis towards the main eigenvectors of a symmetric matrix; `multiply` returns the matrix times a basis."""
    for _ in range(rounds):
        basis = orthonormal(multiply(basis))
    return basis


def strongest(within: np.ndarray, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of the matrix within a subspace (Rayleigh–Ritz), largest first."""
    values, vectors = np.linalg.eigh(within.astype(np.float64))
    order = np.argsort(values)[::-1][:count]
    return values[order], vectors[:, order]
