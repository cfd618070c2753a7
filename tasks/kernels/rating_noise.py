"""Disguise ratings with noise: z-scores per user ([Zhang2006], section 3), GNA per item ([Casino2015], section 4).

The source of randomness is not decided here: noise is computed from uniform numbers that the caller draws.
"""

from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

Noise = Literal["gaussian", "uniform"]

DEVIATIONS_PER_OCTAVE = 8
_CONSTANT = 1e-12  # of the mean square: a deviation below it is the rounding of equal values


def moments(ratings: sp.csr_array, entries: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each user's ratings and their standard deviation ([Zhang2006], section 3, step 2; ddof 0).

    `entries`: the number of entries the deviation runs over, those not rated being filled with the user's mean. A
    user without ratings has mean 0 and deviation 0.
    """
    row, counts = _rows_of(ratings)
    values = ratings.data.astype(np.float64)
    means = np.bincount(row, values, len(counts)) / np.maximum(counts, 1)
    squares = np.bincount(row, (values - means[row]) ** 2, len(counts))
    deviations = np.sqrt(squares / np.maximum(counts if entries is None else entries, 1))
    same = squares <= _CONSTANT * np.bincount(row, values**2, len(counts))
    return means, np.where(same, 0.0, deviations)


def z_scores(ratings: sp.csr_array, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Return the z-score of every rating; 0 for users whose ratings are all equal, since these reveal no taste."""
    row, _ = _rows_of(ratings)
    centred = ratings.data.astype(np.float64) - means[row]
    return np.where(deviations[row] > 0, centred / np.where(deviations[row] > 0, deviations[row], 1.0), 0.0)


def noise(uniforms: np.ndarray, kind: Noise, amount: float | np.ndarray) -> np.ndarray:
    """Return noise from numbers of the open interval (0, 1): normal with deviation `amount`, or uniform within
    ±`amount`.
    """
    return amount * (ndtri(uniforms) if kind == "gaussian" else 2.0 * uniforms - 1.0)


def filled_column_deviations(by_item: sp.csr_array, centre: float) -> np.ndarray:
    """Return the standard deviation of every item's column, missing ratings filled with `centre`.

    [Casino2015], section 3, step 2: population deviation; 1 for constant columns.
    """
    item, counts = _rows_of(by_item)
    centred = by_item.data.astype(np.float64) - centre
    people = by_item.shape[1]
    square = np.bincount(item, centred**2, len(counts)) / people
    variance = square - (np.bincount(item, centred, len(counts)) / people) ** 2
    constant = variance <= _CONSTANT * square
    return np.sqrt(np.where(constant, 1.0, variance))


def deviation_steps(deviations: np.ndarray) -> np.ndarray:
    """Return the lowest step not below each deviation, as a whole number: `stepped_deviations` gives its value."""
    return np.ceil(DEVIATIONS_PER_OCTAVE * np.log2(deviations) - 1e-9).astype(np.int64)


def stepped_deviations(steps: np.ndarray) -> np.ndarray:
    """Return the deviation of each step, at most 9 % above the one it stands for."""
    return np.exp2(steps / DEVIATIONS_PER_OCTAVE)


def _rows_of(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of every stored value, and the number of values in each row."""
    counts = np.diff(matrix.indptr)
    return np.repeat(np.arange(len(counts)), counts), counts
