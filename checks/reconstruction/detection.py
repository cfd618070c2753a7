"""Detect which entries were rated where all are disguised ([Zhang2006], section 4.1), and how strong the noise is
(section 6.3).
"""

from typing import Literal

import numpy as np

Noise = Literal["gaussian", "uniform"]

SURE = 3.0  # standard deviations: noise alone leaves them once in 370 times


def rated_entries(disguised_all: np.ndarray, noise: Noise, amount: float | np.ndarray) -> np.ndarray:
    """Mark the z-scores that are further from 0 than noise alone gets: 3σ of Gaussian noise, α of uniform noise.

    An unrated entry has the z-score 0 before it is disguised. `amount` is one for all, or one per row.
    """
    limit = noise_limit(noise, amount)
    return np.abs(disguised_all) > (limit[:, None] if limit.ndim == 1 else limit)


def noise_limit(noise: Noise, amount: float | np.ndarray) -> np.ndarray:
    """Return how far noise of this σ or α gets: uniform noise no further, Gaussian noise hardly ever."""
    return SURE * np.asarray(amount) if noise == "gaussian" else np.asarray(amount)


def noise_variance(squares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the noise's variance per row, from the sum of its squared values and their number.

    A row's own z-scores have mean 0 and variance 1, so whatever exceeds 1 is noise.
    """
    return np.maximum(squares / np.maximum(counts, 1) - 1, 0)


def amount_of(variance: np.ndarray | float, noise: Noise) -> np.ndarray:
    """Return σ or α of noise of this variance."""
    return np.sqrt(variance if noise == "gaussian" else 3 * np.asarray(variance))


def variance_of(amount: np.ndarray | float, noise: Noise) -> np.ndarray:
    """Return the variance of noise of this σ or α."""
    return np.asarray(amount) ** 2 / (1 if noise == "gaussian" else 3)
