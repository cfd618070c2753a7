"""Measure how close a reconstruction comes ([Zhang2006], section 6): averages over entries that were really rated."""

import numpy as np

NEAR = 1e-4  # published values are float32


def r_mae(reconstructed: np.ndarray, ratings: np.ndarray) -> float:
    """Return R-MAE, the mean distance of reconstructed ratings to the true ones; P-MAE and zscore-MAE have the same
    formula."""
    return float(np.abs(reconstructed - ratings).mean()) if len(ratings) else 0.0


def accuracy(reconstructed: np.ndarray, ratings: np.ndarray, half_level: float) -> float:
    """Return the share of ratings that are recovered: to less than half the distance between two levels."""
    return float(is_recovered(reconstructed, ratings, half_level).mean()) if len(ratings) else 0.0


def is_recovered(reconstructed: np.ndarray, ratings: np.ndarray, half_level: float) -> np.ndarray:
    """Mark the ratings that are recovered."""
    return np.abs(reconstructed - ratings) <= half_level + NEAR


def zscore_mae(reconstructed: np.ndarray, scores: np.ndarray) -> float:
    """Return zscore-MAE, the mean distance of reconstructed z-scores to the true ones."""
    return r_mae(reconstructed, scores)


def potential_ratings(scores: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Return ratings from reconstructed z-scores, given the person's mean and standard deviation (one entry each)."""
    return means + deviations * scores


def p_mae(scores: np.ndarray, means: np.ndarray, deviations: np.ndarray, ratings: np.ndarray) -> float:
    """Return P-MAE, the mean distance of the potential ratings to the true ones."""
    return r_mae(potential_ratings(scores, means, deviations), ratings)


def precision(marked: np.ndarray, rated: np.ndarray) -> float:
    """Return the share of the entries marked as rated that are rated; 1 where none is marked (no claim was wrong)."""
    return float((marked & rated).sum() / marked.sum()) if marked.any() else 1.0


def recall(marked: np.ndarray, rated: np.ndarray) -> float:
    """Return the share of the rated entries that are marked."""
    return float((marked & rated).sum() / rated.sum()) if rated.any() else 0.0
