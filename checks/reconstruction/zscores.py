"""Compute z-scores of every person's ratings, before anything disguises them ([Zhang2006], section 3, step 2)."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class ZScores:
    """Hold the z-scores of the rated entries, and each row's mean and standard deviation (0 where all its ratings are
    equal)."""

    matrix: sp.csr_array
    means: np.ndarray
    deviations: np.ndarray


def zscores(ratings: sp.csr_array, *, all_entries: bool = False) -> ZScores:
    """Return z-scores per row with the population's standard deviation.

    With `all_entries`, that of the row after its unrated entries were filled with its mean; these have the z-score 0
    and are not stored.
    """
    counts = np.diff(ratings.indptr)
    owners = np.repeat(np.arange(ratings.shape[0]), counts)
    values = ratings.data.astype(np.float64)
    among = np.full(len(counts), ratings.shape[1]) if all_entries else counts
    means = np.bincount(owners, weights=values, minlength=len(counts)) / np.maximum(counts, 1)
    apart = values - means[owners]
    deviations = np.sqrt(np.bincount(owners, weights=apart**2, minlength=len(counts)) / np.maximum(among, 1))
    deviations[deviations < 1e-9] = 0
    scores = np.divide(apart, deviations[owners], out=np.zeros(len(apart)), where=deviations[owners] > 0)
    matrix = sp.csr_array((scores, ratings.indices, ratings.indptr), shape=ratings.shape)
    return ZScores(matrix, means, deviations)
