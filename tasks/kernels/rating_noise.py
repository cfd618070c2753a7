"""Ratings disguised with noise: z-scores per person (paper 001, section 3), GNA per item (paper 003, section 4).

Where the noise comes from is not decided here: it is made from uniform numbers that the caller draws.
"""

from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

Noise = Literal["gaussian", "uniform"]

SPREADS_PER_OCTAVE = 8
_CONSTANT = 1e-12  # of the mean square: what is left of a spread when all values are equal is rounding


def moments(ratings: sp.csr_array, entries: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean of each person's ratings and their standard deviation (paper 001, section 3, step 2; ddof 0).

    `entries`: the deviation runs over so many entries, those not rated being filled with the person's mean. Who rated
    nothing has mean 0 and deviation 0.
    """
    row, counts = _rows_of(ratings)
    values = ratings.data.astype(np.float64)
    means = np.bincount(row, values, len(counts)) / np.maximum(counts, 1)
    squares = np.bincount(row, (values - means[row]) ** 2, len(counts))
    spreads = np.sqrt(squares / np.maximum(counts if entries is None else entries, 1))
    same = squares <= _CONSTANT * np.bincount(row, values**2, len(counts))
    return means, np.where(same, 0.0, spreads)


def z_scores(ratings: sp.csr_array, means: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """z-score of every rating; 0 for people whose ratings are all equal: they tell nothing about taste."""
    row, _ = _rows_of(ratings)
    apart = ratings.data.astype(np.float64) - means[row]
    return np.where(spreads[row] > 0, apart / np.where(spreads[row] > 0, spreads[row], 1.0), 0.0)


def noise(uniforms: np.ndarray, kind: Noise, amount: float | np.ndarray) -> np.ndarray:
    """Noise from numbers of the open interval (0, 1): normal with deviation `amount`, or uniform within ±`amount`."""
    return amount * (ndtri(uniforms) if kind == "gaussian" else 2.0 * uniforms - 1.0)


def filled_spreads(by_item: sp.csr_array, centre: float) -> np.ndarray:
    """Standard deviation of every item's column, missing ratings filled with `centre` (paper 003, section 3, step 2).

    Population deviation; 1 for constant columns.
    """
    item, counts = _rows_of(by_item)
    apart = by_item.data.astype(np.float64) - centre
    people = by_item.shape[1]
    square = np.bincount(item, apart**2, len(counts)) / people
    variance = square - (np.bincount(item, apart, len(counts)) / people) ** 2
    constant = variance <= _CONSTANT * square
    return np.sqrt(np.where(constant, 1.0, variance))


def spread_steps(spreads: np.ndarray) -> np.ndarray:
    """The lowest step that is not below each spread, as a whole number: `stepped_spreads` gives its value."""
    return np.ceil(SPREADS_PER_OCTAVE * np.log2(spreads) - 1e-9).astype(np.int64)


def stepped_spreads(steps: np.ndarray) -> np.ndarray:
    """The spread of each step, at most 9 % above what it stands for."""
    return np.exp2(steps / SPREADS_PER_OCTAVE)


def _rows_of(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The row of every stored value, and how many each row has."""
    counts = np.diff(matrix.indptr)
    return np.repeat(np.arange(len(counts)), counts), counts
