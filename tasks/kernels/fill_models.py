"""Model what stands for a missing rating ([Casino2015], section 3, step 1): the scale's centre, item means or user
means.

All models are low rank, like the predictions of a padding model, so that the same code fills, averages and publishes
them. A mean over fewer than `fewest` ratings would disclose those ratings: the overall mean takes its place, and
ratings of items with fewer raters enter no mean at all (docs/leaks-and-bars.md).
"""

import numpy as np

from tasks.kernels.padded import LowRank


def centre_model(shape: tuple[int, int], scale: tuple[float, float]) -> LowRank:
    """Fill with the centre of the scale everywhere: the choice of [Casino2015]."""
    users, items = shape
    return LowRank(np.zeros((users, 1), np.float32), np.zeros((items, 1), np.float32), sum(scale) / 2)


def item_mean_model(
    users: int, totals: np.ndarray, counts: np.ndarray, fewest: int, centre: float
) -> LowRank:
    """Fill with each item's mean, from the sum and the number of its ratings."""
    levels, overall = _levels(totals, counts, fewest, centre)
    return LowRank(np.ones((users, 1), np.float32), levels, overall)


def user_mean_model(
    items: int, totals: np.ndarray, counts: np.ndarray, fewest: int, centre: float
) -> LowRank:
    """Fill with each user's mean, from the sum and the number of the ratings of items that enough users rated."""
    levels, overall = _levels(totals, counts, fewest, centre)
    return LowRank(levels, np.ones((items, 1), np.float32), overall)


def _levels(totals: np.ndarray, counts: np.ndarray, fewest: int, centre: float) -> tuple[np.ndarray, float]:
    """Return how far each mean lies from the overall one, as a column; 0 where it is made of too few ratings."""
    enough = counts >= max(1, fewest)
    if not enough.any():
        return np.zeros((len(totals), 1), np.float32), centre
    overall = float(totals[enough].sum() / counts[enough].sum())
    apart = np.where(enough, totals / np.maximum(counts, 1) - overall, 0.0)
    return apart.astype(np.float32)[:, None], overall
