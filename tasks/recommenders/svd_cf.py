"""Predict by SVD-based collaborative filtering on disguised data ([PolatDu2005], equations 3–6), without EM.

Every user disguises all entries, the unrated ones as z-score 0. The noise adds its variance to the diagonal of ÂᵀÂ;
with that subtracted, the main eigenvectors V are those of the undisguised data, and ÂVVᵀ predicts. In a sparse
`train` (only rated entries were disguised) the other entries are 0, and an item's diagonal has the noise of its own
raters.
"""

from typing import Any

import numpy as np
from pydantic import Field

from tasks.config.base import Settings
from tasks.recommenders import Recommender, Train
from tasks.recommenders.svd_em import LowRank, project

RECOMMENDER = Recommender(compared=False)  # it serves the study of [Zhang2006]


class SvdCf(Settings):
    """Set the number of dimensions, by default that of the EM variant, so that the two can be compared."""

    rank: int = Field(default=10, ge=1)
    noise_variance: float = Field(default=0.0, ge=0, description="of one disguised value: σ², or α²/3")


def fit(train: Train, **settings: Any) -> LowRank:
    """Project the disguised z-scores once; predictions are z-scores, too."""
    chosen = SvdCf(**settings)
    users, items = train.shape
    raters = users if isinstance(train, np.ndarray) else np.bincount(train.indices, minlength=items)
    nothing = LowRank(np.zeros((users, 1)), np.zeros((items, 1)))
    return project(train, nothing, rank=chosen.rank, off_diagonal=chosen.noise_variance * raters)
