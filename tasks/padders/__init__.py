"""Hold the predictors of missing ratings, one file each. Any predictor may serve ([Chang2009], section 4.1).

A padder has `fit(context, ratings, fit_items) -> LowRank`. It sees only the items in `fit_items`; for the others it
must predict the user's own level and nothing about the item (the column of an item with too few raters would otherwise
disclose their ratings). One that has a fourth argument, `prior`, can begin from what earlier releases made public
(kernels/public_prior.py); of items outside the fit it shows the prior alone.

May import data, kernels, store, and of pipeline the context of a step; no step and no method.
"""

from importlib import import_module
from typing import Any, Protocol

import numpy as np

from tasks.data.ratings import Ratings
from tasks.kernels.padded import LowRank
from tasks.kernels.public_prior import Prior
from tasks.pipeline import StepContext


class Padder(Protocol):
    """Describe what is asked of a predictor's module."""

    def fit(
        self, context: StepContext[Any], ratings: Ratings, fit_items: np.ndarray, prior: Prior | None = None
    ) -> LowRank:
        """Fit on the ratings of `fit_items`, a mask over items; `context.params` are factors.FactorParams."""
        ...


def padder(name: str) -> Padder:
    """Return the predictor of that name."""
    module: Padder = import_module(f"{__name__}.{name}")  # type: ignore[assignment]
    return module
