"""Fit a regularized low-rank model to a matrix without gaps, which is only read in blocks of rows.

A matrix with missing cells needs alternating least squares (kernels/als.py). Without gaps their objective Σ (value −
u·v)² + a Σ|u|² + b Σ|v|² has a closed solution: the truncated SVD, each singular value less √(ab).
"""

from collections.abc import Callable, Iterator

import numpy as np

from tasks.kernels.padded import LowRank

OVERSAMPLING = 10  # further directions that are iterated and dropped in the end
PASSES = 6  # over the matrix; each shrinks a direction's error by the squared ratio of singular values


def truncated_svd(
    blocks: Callable[[], Iterator[np.ndarray]],
    n_items: int,
    rank: int,
    shrinkage: float,
    rng: np.random.Generator,
) -> LowRank:
    """Return item means plus `rank` directions of the residual, by subspace iteration, singular values less
    `shrinkage`.

    `blocks()` passes once over all rows.
    """
    sums, rows = np.zeros(n_items), 0
    for block in blocks():
        sums += block.sum(axis=0, dtype=np.float64)
        rows += len(block)
    means = sums / max(rows, 1)
    width = min(rank + OVERSAMPLING, rows, n_items)
    directions = _orthonormal(rng.standard_normal((n_items, width)))
    for _ in range(PASSES):
        product = np.zeros((n_items, width))
        for block in blocks():
            centred = block - means.astype(np.float32)
            product += centred.T @ (centred @ directions)
        directions = _orthonormal(product)
    gram = np.zeros((width, width))
    for block in blocks():
        projected = (block - means.astype(np.float32)) @ directions
        gram += projected.T.astype(np.float64) @ projected
    squares, inside = np.linalg.eigh(gram)  # ascending: the last ones carry most
    items = directions @ inside[:, ::-1][:, :rank].astype(np.float32)
    users = np.concatenate([(block - means.astype(np.float32)) @ items for block in blocks()])
    singular = np.sqrt(np.maximum(squares[::-1][:rank], 0))
    items *= (np.maximum(singular - shrinkage, 0) / np.maximum(singular, 1e-30)).astype(np.float32)
    ones = np.ones((rows, 1), np.float32)
    return LowRank(np.hstack([users, ones]), np.hstack([items, means[:, None].astype(np.float32)]), 0.0)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    return np.linalg.qr(columns)[0].astype(np.float32)
