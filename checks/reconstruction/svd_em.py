"""Estimate z-scores from all people's disguised values together ([Zhang2006], section 5): a low-rank model, by EM.

Ratings are nearly low rank and noise is not: the projection of the disguised matrix onto its main directions keeps the
first and loses most of the second. Entries that were not disguised are filled from the model of the round before
(section 5.2).

The matrix is filled in, m × n numbers of 4 bytes (MovieLens 1M: 90 MB), and 16 bytes a known entry beside it. Its
directions (directions.py) are kept from round to round: EM hardly changes them, so two passes a round follow the exact
ones.
"""

from typing import Literal

import numpy as np
import scipy.sparse as sp

from checks.reconstruction.detection import Noise, variance_of
from checks.reconstruction.directions import main_directions, starting_basis

FIRST_PASSES, PASSES = 12, 2
STRETCH_CELLS = 4_000_000
LEAST_ERROR = 0.05  # variance that a low-rank model leaves unexplained of z-scores: never 0

Kind = Literal["plain", "weighted"]


def reconstruct(
    disguised: sp.csr_array | np.ndarray,
    *,
    rank: int = 10,
    iterations: int = 50,
    noise: Noise = "gaussian",
    amount: float | np.ndarray = 0.0,
    kind: Kind = "plain",
) -> np.ndarray:
    """Return the z-scores before the noise, for every row and column (float32).

    A sparse matrix has the disguised values of some entries, a dense one of all (then one round is enough). `amount` is
    σ or α, one for all or one per row.

    Gaussian noise: X = ÂHHᵀ with the main right singular vectors H of Â. Uniform: the main eigenvectors of ÂᵀÂ instead,
    with the noise subtracted from its diagonal (equations 5.4 and 5.5): for column f as much as its disguised entries
    have. `weighted`: rows with more noise count less (section 6.3, Aguiar and Moura's scalar-weighted SVD), 1 / (error
    of the model + variance of the row's noise).
    """
    filled, known, data, counts = _filled(disguised)
    rows, columns = filled.shape
    rank = min(rank, rows, columns)
    per_row = np.broadcast_to(variance_of(amount, noise), (rows,)).astype(np.float64)
    weights = np.ones(rows)
    error = 1.0  # z-scores have variance 1: at first nothing is explained
    basis = starting_basis(filled.shape, rank)
    for turn in range(iterations if known is not None else 1):
        if kind == "weighted":
            weights = 1 / (error + per_row)
            weights /= weights.mean()
        off = _diagonal(disguised, weights * per_row) if noise == "uniform" else None
        passes = PASSES if turn else FIRST_PASSES
        basis, scores, main = main_directions(filled, basis, weights, off, rank, passes)
        _project(filled, scores, main)
        if known is None:
            break
        if kind == "weighted":
            apart = data - filled.ravel()[known]
            left = float(np.mean(apart.astype(np.float64) ** 2)) - float(np.average(per_row, weights=counts))
            error = float(np.clip(left, LEAST_ERROR, 1.0))
        if turn + 1 < iterations:
            filled.ravel()[known] = data
    return filled


def _filled(
    disguised: sp.csr_array | np.ndarray,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray]:
    """Return the matrix with 0 where nothing is known, the positions of the known entries (None: all), their values and
    how many each row has."""
    if isinstance(disguised, np.ndarray):
        return disguised.astype(np.float32), None, np.zeros(0, np.float32), np.zeros(0, np.int64)
    counts = np.diff(disguised.indptr)
    owners = np.repeat(np.arange(disguised.shape[0], dtype=np.int64), counts)
    known = owners * disguised.shape[1] + disguised.indices
    data = disguised.data.astype(np.float32)
    filled = np.zeros(disguised.shape, np.float32)
    filled.ravel()[known] = data
    return filled, known, data, counts


def _diagonal(disguised: sp.csr_array | np.ndarray, per_row: np.ndarray) -> np.ndarray:
    """Return what noise adds to the diagonal of ÂᵀÂ: the variance of every entry's noise, summed over its column."""
    if isinstance(disguised, np.ndarray):
        return np.full(disguised.shape[1], per_row.sum())
    weight = np.repeat(per_row, np.diff(disguised.indptr))
    return np.bincount(disguised.indices, weights=weight, minlength=disguised.shape[1])


def _project(filled: np.ndarray, scores: np.ndarray, main: np.ndarray) -> None:
    """Replace the matrix by its projection, some rows at a time."""
    stretch = max(1, STRETCH_CELLS // max(1, filled.shape[1]))
    across = main.T.astype(np.float32)
    for start in range(0, len(filled), stretch):
        part = slice(start, start + stretch)
        np.matmul(scores[part].astype(np.float32), across, out=filled[part])
