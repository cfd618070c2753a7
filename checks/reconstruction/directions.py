"""Find the main directions of a matrix with weighted rows and noise of known variance on its diagonal.

Subspace iteration from a fixed start with more directions than requested. Each round passes over the matrix twice;
nothing of the size of its Gram matrix (columns²) is ever made.
"""

import numpy as np

from checks.recovery.subspace import iterate, random_basis, strongest

MORE = 10  # directions beside the requested ones, of which the last then converge sooner


def starting_basis(shape: tuple[int, int], rank: int) -> np.ndarray:
    """Return a fixed starting subspace; the result does not depend on it."""
    width = min(rank + MORE, *shape)
    return random_basis(np.random.default_rng(1), shape[1], width)


def main_directions(
    matrix: np.ndarray,
    basis: np.ndarray,
    weights: np.ndarray,
    off: np.ndarray | None,
    rank: int,
    passes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turn a subspace towards the main eigenvectors of MᵀWM − diag(off), W the rows' weights.

    Return the subspace, the rows' coordinates on the first `rank` of its vectors, and these.
    """
    weight = weights[:, None].astype(np.float32)

    def multiply(basis: np.ndarray) -> np.ndarray:
        projected = matrix @ basis.astype(np.float32)
        towards = (matrix.T @ (weight * projected)).astype(np.float64)
        if off is not None:
            towards -= off[:, None] * basis
        return towards

    basis = iterate(multiply, basis, passes)
    projected = (matrix @ basis.astype(np.float32)).astype(np.float64)
    within = projected.T @ (weights[:, None] * projected)
    if off is not None:
        within -= basis.T @ (off[:, None] * basis)
    vectors = strongest(within)[1]
    return basis @ vectors, projected @ vectors[:, :rank], basis @ vectors[:, :rank]
