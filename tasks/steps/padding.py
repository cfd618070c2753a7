"""Padding: predict every missing rating (paper section 4.1). The model is kept, the padded matrix never is.

Where predictions shall not tell an attribute (`padding.neutral`), people's factors are moved so that all its classes
are distributed alike (tasks/kernels/neutral.py): grouping and profiles, which know nothing but the factors, follow.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.errors import MurmurError
from tasks.kernels.neutral import neutral
from tasks.kernels.padded import LowRank
from tasks.kernels.points import segments_of
from tasks.kernels.pruning import SEGMENTS
from tasks.padders import padder
from tasks.pipeline import Job
from tasks.ratings import Ratings, class_numbers
from tasks.store import read_json, write_json


class Params(Settings):
    """What the model depends on."""

    predictor: str
    rank: int
    regularization: float
    iterations: int
    span: float
    min_contributors: int
    neutral: tuple[str, ...] = ()


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    chosen = config.padding.model_dump(
        include={"predictor", "rank", "regularization", "iterations", "neutral"}
    )
    low, high = config.source.scale
    return Params(**chosen, span=high - low, min_contributors=config.privacy.min_contributors)


def run(job: Job) -> dict[str, Any]:
    """Fit the predictor on the items that enough people rated, and write its factors."""
    ratings = Ratings(job.ratings)
    raters = ratings.real_raters()
    # An item with fewer raters than this would tell their ratings through its column (SCIENCE P0, leak iii).
    fit_items = raters >= job.params.min_contributors
    model = padder(job.params.predictor).fit(job, ratings, fit_items)
    if not (np.isfinite(model.users).all() and np.isfinite(model.items).all()):
        raise MurmurError(
            "the predictor found no finite answer", where="padding", remedy="raise padding.regularization"
        )
    if job.params.neutral:
        classes = [class_numbers(ratings.attributes()[name]) for name in job.params.neutral]
        model = replace(model, users=neutral(model.users, model.items, classes, job.rng("neutral")))
    np.save(job.out / "users.npy", model.users)
    np.save(job.out / "items.npy", model.items)
    np.save(job.out / "segments.npy", segments_of(model.items, model.users, SEGMENTS))
    write_json(job.out / "model.json", {"mean": model.mean})
    return {
        "rank": job.params.rank,
        "fitted_items": int(fit_items.sum()),
        "rare_items": int((~fit_items).sum()),
    }


def open_model(directory: Path) -> LowRank:
    """The fitted model, memory-mapped."""
    users, items = (np.load(directory / f"{side}.npy", mmap_mode="r") for side in ("users", "items"))
    return LowRank(users, items, read_json(directory / "model.json")["mean"])


def open_segments(directory: Path) -> np.ndarray:
    """The segment of each item: items with similar factors share one (kernels/pruning.py)."""
    return np.load(directory / "segments.npy")
