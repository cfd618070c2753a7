"""Compute the baselines of utility: a model of the ratings before any step changed them, and the items' means.

What a release loses because a step changed the ratings, or because predictions must not reveal an attribute, counts as
a loss, and so does what phantom raters cost. So the baseline model is fitted on the unchanged ratings, without
`neutral` and without phantom raters.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tasks.data.factors import FactorParams, fit_factors
from tasks.data.ratings import Ratings
from tasks.pipeline import StepContext


def fit_baseline(context: StepContext[FactorParams], ratings: Ratings) -> Path:
    """Fit the baseline model as a release of these ratings would, and return its directory, `context.out`."""
    context.out.mkdir()
    fit_factors(
        replace(context, params=context.params.unprotected()),
        ratings,
    )
    return context.out


def item_means(ratings: Ratings) -> np.ndarray:
    """Return the mean rating of each item, the mean of all ratings where it has none: the simplest predictor."""
    side = ratings.by_item
    totals = [side.block(start, stop).sum(axis=1, dtype=np.float64) for start, stop in side.blocks()]
    total, count = np.concatenate(totals), side.counts()
    return np.where(count > 0, total / np.maximum(count, 1), total.sum() / max(count.sum(), 1))
