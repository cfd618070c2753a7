"""What stands for a missing rating (paper 003, section 3, step 1): the centre of the scale, item means, user means.

All are low rank, like the predictions of a padding model, so that one way of filling, averaging and publishing serves
all of them. A mean over fewer than `fewest` ratings would tell those ratings: the overall mean takes its place, and
ratings of items with fewer raters enter no mean at all (SCIENCE P0, "an item with fewer than c raters").
"""

import numpy as np

from tasks.kernels.padded import LowRank


def central(shape: tuple[int, int], scale: tuple[float, float]) -> LowRank:
    """The centre of the scale everywhere: the paper's choice."""
    users, items = shape
    return LowRank(np.zeros((users, 1), np.float32), np.zeros((items, 1), np.float32), sum(scale) / 2)


def item_means(users: int, totals: np.ndarray, counts: np.ndarray, fewest: int, centre: float) -> LowRank:
    """Each item's mean, from the sum and the number of its ratings."""
    levels, overall = _levels(totals, counts, fewest, centre)
    return LowRank(np.ones((users, 1), np.float32), levels, overall)


def user_means(items: int, totals: np.ndarray, counts: np.ndarray, fewest: int, centre: float) -> LowRank:
    """Each user's mean, from the sum and the number of the ratings of items that enough people rated."""
    levels, overall = _levels(totals, counts, fewest, centre)
    return LowRank(levels, np.ones((items, 1), np.float32), overall)


def _levels(totals: np.ndarray, counts: np.ndarray, fewest: int, centre: float) -> tuple[np.ndarray, float]:
    """How far each mean lies from the overall one, as a column; 0 where it is made of too few ratings."""
    enough = counts >= max(1, fewest)
    if not enough.any():
        return np.zeros((len(totals), 1), np.float32), centre
    overall = float(totals[enough].sum() / counts[enough].sum())
    apart = np.where(enough, totals / np.maximum(counts, 1) - overall, 0.0)
    return apart.astype(np.float32)[:, None], overall
