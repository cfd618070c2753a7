"""Predict mean + user bias + item bias, shrunk towards zero: the simplest predictor.

A baseline for other padders, and sufficient for data too small to fit factors on.
"""

from typing import Any

import numpy as np

from tasks.data.ratings import Ratings
from tasks.kernels.padded import LowRank
from tasks.kernels.phantom_raters import hide_levels
from tasks.kernels.public_prior import Prior
from tasks.pipeline import StepContext

SHRINKAGE = 5.0  # in ratings: the weight of a bias of zero


def fit(
    context: StepContext[Any], ratings: Ratings, fit_items: np.ndarray, prior: Prior | None = None
) -> LowRank:
    """Alternate between shrunken user and item means; with a prior, items are shrunk towards its levels."""
    by_user = ratings.by_user
    matrix = by_user.whole()
    row = np.repeat(np.arange(by_user.rows), by_user.counts())
    keep = fit_items[matrix.indices]
    row, column, value = row[keep], matrix.indices[keep], matrix.data[keep].astype(np.float64)
    if prior is not None:
        value -= prior.levels[column]
    mean = float(value.mean()) if len(value) else float(matrix.data.mean())
    user, item = np.zeros(by_user.rows), np.zeros(by_user.columns)
    for turn in range(context.params.iterations):
        item = _shrunken_mean(column, value - mean - user[row], len(item))
        user = _shrunken_mean(row, value - mean - item[column], len(user))
        context.progress(turn + 1, context.params.iterations)
    if context.params.hides_raters:  # they have no taste here, so only the levels are hidden
        counts, rng = np.bincount(column, minlength=len(item))[fit_items], context.rng("levels")
        expected = None if prior is None else np.where(prior.known, np.float32(0), np.float32(np.nan))
        item[fit_items] = hide_levels(
            item[fit_items],
            counts,
            SHRINKAGE,
            context.params.span,
            rng,
            None if expected is None else expected[fit_items],
        )
    if prior is not None:
        item += prior.levels
    users = np.stack([user, np.ones_like(user)], axis=1)
    items = np.stack([np.ones_like(item), item], axis=1)
    return LowRank(users.astype(np.float32), items.astype(np.float32), mean)


def _shrunken_mean(index: np.ndarray, value: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(index, value, size) / (np.bincount(index, minlength=size) + SHRINKAGE)
