"""Predictors that fill in what people did not rate. The paper (section 4.1): any predictor may serve.

A padder is one file here with `fit(job, ratings, fit_items) -> LowRank`. It sees only the items in `fit_items`;
for the others it must predict the user's own level and nothing about the item (an item with too few raters
would otherwise tell their ratings).
"""

from importlib import import_module
from typing import Protocol

import numpy as np

from tasks.kernels.padded import LowRank
from tasks.pipeline import Job
from tasks.ratings import Ratings


class Padder(Protocol):
    """What the padding step asks of a predictor module."""

    def fit(self, job: Job, ratings: Ratings, fit_items: np.ndarray) -> LowRank:
        """Fit on the ratings of `fit_items` (a mask over items)."""
        ...


def padder(name: str) -> Padder:
    """The predictor of that name."""
    module: Padder = import_module(f"{__name__}.{name}")  # type: ignore[assignment]
    return module
