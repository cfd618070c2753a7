"""The main directions of a large matrix: the eigenvectors of its Gram matrix with the largest eigenvalues.

Subspace iteration from a fixed start with more directions than asked. The matrix is passed twice a round and nothing of
the size of its Gram matrix (columns²) is ever made.
"""

import numpy as np
import scipy.linalg

MORE = 10  # directions beside those asked for: the last ones asked for then settle sooner


def starting_basis(shape: tuple[int, int], rank: int) -> np.ndarray:
    """A fixed starting subspace; what comes out does not depend on it."""
    width = min(rank + MORE, *shape)
    return np.linalg.qr(np.random.default_rng(1).standard_normal((shape[1], width)))[0]


def turned(
    matrix: np.ndarray,
    basis: np.ndarray,
    weights: np.ndarray,
    off: np.ndarray | None,
    rank: int,
    passes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turn a subspace towards the main eigenvectors of MᵀWM − diag(off), W the rows' weights.

    Returns the subspace, the rows' coordinates on the first `rank` of its vectors, and these.
    """
    weight = weights[:, None].astype(np.float32)
    for _ in range(passes):
        projected = matrix @ basis.astype(np.float32)
        towards = (matrix.T @ (weight * projected)).astype(np.float64)
        if off is not None:
            towards -= off[:, None] * basis
        basis = np.linalg.qr(towards)[0]
    projected = (matrix @ basis.astype(np.float32)).astype(np.float64)
    within = projected.T @ (weights[:, None] * projected)
    if off is not None:
        within -= basis.T @ (off[:, None] * basis)
    vectors = scipy.linalg.eigh(within)[1][:, ::-1]  # largest first
    return basis @ vectors, projected @ vectors[:, :rank], basis @ vectors[:, :rank]
