"""Hold the fitted model on disk: a low-rank predictor of every rating, as factors of users and of items.

    users.npy items.npy     factors; the prediction for a cell is mean + users[u] · items[i]
    model.json              the mean
    segments.npy            the segment of each item: items with similar factors share one (kernels/pruning.py)

The padded matrix is never stored ([Chang2009], section 4.1): whoever needs rows of it multiplies them out in blocks.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.public_prior import read_prior
from tasks.data.ratings import Ratings, class_numbers
from tasks.errors import MurmurError
from tasks.kernels.neutral_factors import neutralize_factors
from tasks.kernels.padded import LowRank
from tasks.kernels.pruning import SEGMENTS
from tasks.kernels.public_prior import Prior
from tasks.kernels.rating_vectors import segment_items
from tasks.padders import padder
from tasks.pipeline import StepContext
from tasks.store import read_json, write_json


class FactorParams(Settings):
    """Hold what a fitted model depends on."""

    predictor: str
    rank: int
    regularization: float
    iterations: int
    span: float
    min_contributors: int
    phantom_raters: int = 0
    level_only_below: int = 0
    neutral: tuple[str, ...] = ()

    @property
    def hides_raters(self) -> bool:
        """Return whether the model hides the leverage of single raters."""
        return bool(self.phantom_raters or self.level_only_below)

    def unprotected(self) -> "FactorParams":
        """Return the parameters of the same model without any defence: what a release is compared with."""
        return self.model_copy(update={"neutral": (), "phantom_raters": 0, "level_only_below": 0})

    @classmethod
    def of(cls, config: ReleaseConfig) -> "FactorParams":
        """Return the parameters of a release's model."""
        chosen = config.padding.model_dump(
            include={
                *("predictor", "rank", "regularization", "iterations"),
                *("phantom_raters", "level_only_below", "neutral"),
            }
        )
        low, high = config.source.scale
        return cls(**chosen, span=high - low, min_contributors=config.privacy.min_contributors)


def fit_factors(
    context: StepContext[FactorParams], ratings: Ratings, prior: Prior | None = None
) -> dict[str, Any]:
    """Fit the predictor on the items that enough users rated, write its factors to `context.out`, return counts.

    An item with fewer raters than `min_contributors` would disclose their ratings through its column
    (docs/leaks-and-bars.md). The leverage of single raters of other items is hidden by phantom raters
    (tasks/kernels/phantom_raters.py). Where predictions must not reveal an attribute (`neutral`), the users' factors
    are moved so that all its classes are distributed alike (tasks/kernels/neutral_factors.py). The model is shrunk
    towards `prior`, by default the one beside the ratings, where there is one (tasks/data/public_prior.py).
    """
    params, out = context.params, context.out
    fit_items = ratings.real_raters() >= params.min_contributors
    prior = read_prior(ratings) if prior is None else prior
    given = {} if prior is None else {"prior": prior}
    model = padder(params.predictor).fit(context, ratings, fit_items, **given)
    if not (np.isfinite(model.users).all() and np.isfinite(model.items).all()):
        raise MurmurError(
            "the predictor found no finite solution", where="padding", remedy="raise padding.regularization"
        )
    if params.neutral:
        classes = [class_numbers(ratings.attributes()[name]) for name in params.neutral]
        model = replace(
            model, users=neutralize_factors(model.users, model.items, classes, context.rng("neutral"))
        )
    np.save(out / "users.npy", model.users)
    np.save(out / "items.npy", model.items)
    np.save(out / "segments.npy", segment_items(model.items, model.users, SEGMENTS))
    write_json(out / "model.json", {"mean": model.mean})
    return {
        "rank": params.rank,
        "fitted_items": int(fit_items.sum()),
        "rare_items": int((~fit_items).sum()),
    }


def open_model(directory: Path) -> LowRank:
    """Open a fitted model, memory-mapped."""
    users, items = (np.load(directory / f"{side}.npy", mmap_mode="r") for side in ("users", "items"))
    return LowRank(users, items, read_json(directory / "model.json")["mean"])


def open_segments(directory: Path) -> np.ndarray:
    """Return the segment of each item."""
    return np.load(directory / "segments.npy")
