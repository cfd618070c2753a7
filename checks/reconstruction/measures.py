"""How near a reconstruction comes (paper 001, section 6): averages over entries that were really rated."""

import numpy as np

NEAR = 1e-4  # published values are float32


def r_mae(reconstructed: np.ndarray, ratings: np.ndarray) -> float:
    """R-MAE, mean distance of reconstructed ratings to the true ones; the same for P-MAE and zscore-MAE."""
    return float(np.abs(reconstructed - ratings).mean()) if len(ratings) else 0.0


def accuracy(reconstructed: np.ndarray, ratings: np.ndarray, half_level: float) -> float:
    """Share of ratings that are told: to less than half the distance between two levels."""
    return float(right(reconstructed, ratings, half_level).mean()) if len(ratings) else 0.0


def right(reconstructed: np.ndarray, ratings: np.ndarray, half_level: float) -> np.ndarray:
    """Which ratings are told."""
    return np.abs(reconstructed - ratings) <= half_level + NEAR


def zscore_mae(reconstructed: np.ndarray, scores: np.ndarray) -> float:
    """zscore-MAE, mean distance of reconstructed z-scores to the true ones."""
    return r_mae(reconstructed, scores)


def potential_ratings(scores: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Ratings from reconstructed z-scores, if the person's mean and standard deviation were known (one entry each)."""
    return means + deviations * scores


def p_mae(scores: np.ndarray, means: np.ndarray, deviations: np.ndarray, ratings: np.ndarray) -> float:
    """P-MAE, mean distance of the potential ratings to the true ones."""
    return r_mae(potential_ratings(scores, means, deviations), ratings)


def precision(marked: np.ndarray, rated: np.ndarray) -> float:
    """Of the entries marked as rated, the share that is; 1 where none is marked (nothing wrong was said)."""
    return float((marked & rated).sum() / marked.sum()) if marked.any() else 1.0


def recall(marked: np.ndarray, rated: np.ndarray) -> float:
    """Of the rated entries, the share that is marked."""
    return float((marked & rated).sum() / rated.sum()) if rated.any() else 0.0
