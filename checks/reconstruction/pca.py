"""Reconstruct z-scores by the principal components of the disguised data, without EM ([Huang2005]).

[Zhang2006] compares its own reconstruction with it in figure 4. The covariance of the disguised values is that of the
original ones plus the noise's variance on its diagonal. The part in the main eigenvectors of the difference is kept.
Entries that were not disguised are taken as 0, the person's mean. Memory: 8 bytes for each of m × n entries.
"""

import numpy as np
import scipy.sparse as sp

from checks.reconstruction.detection import Noise, variance_of
from checks.reconstruction.directions import main_directions, starting_basis

PASSES = 40


def reconstruct(
    disguised: sp.csr_array | np.ndarray,
    *,
    rank: int = 10,
    noise: Noise = "gaussian",
    amount: float | np.ndarray = 0.0,
) -> np.ndarray:
    """Return the z-scores before the noise, for every row and column (float32); `amount` as for svd_em."""
    rows, columns = disguised.shape
    rank = min(rank, rows, columns)
    per_row = np.broadcast_to(variance_of(amount, noise), (rows,))
    if isinstance(disguised, np.ndarray):
        noisy = np.full(columns, per_row.sum())
        centred = disguised.astype(np.float32)
    else:
        weight = np.repeat(per_row, np.diff(disguised.indptr))
        noisy = np.bincount(disguised.indices, weights=weight, minlength=columns)
        centred = disguised.astype(np.float32).toarray()
    means = centred.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred -= means
    _, scores, main = main_directions(
        centred, starting_basis(disguised.shape, rank), np.ones(rows), noisy, rank, PASSES
    )
    np.matmul(scores.astype(np.float32), main.T.astype(np.float32), out=centred)
    centred += means
    return centred
