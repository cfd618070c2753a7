"""Centroids: every item, the mean of the members' filled ratings (paper 003, section 3, steps 3 to 5).

The centroid of z-scores, de-standardised, is the mean of the filled ratings: that is what is published. A cell with
fewer than `min_contributors` real ratings shows the mean of the members' imputed values alone. With model imputation
and `padding.keep_observed` false no observed rating enters any cell: they served to form the groups (SCIENCE P0).
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

from tasks import profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.homogenize import observed_shifts, padded_codes
from tasks.kernels.padded import LowRank
from tasks.pipeline import Job
from tasks.profilers._parts import members_of, write_parts
from tasks.ratings import Ratings
from tasks.steps.padding import open_model

CELLS_PER_BLOCK = 32_000_000  # of groups × items, a byte or two each
RATINGS_PER_BLOCK = 1_000_000


class Params(Settings):
    """What is published of a group."""

    model: bool
    min_contributors: int
    keep_observed: bool
    scale: tuple[float, float]
    rating_step: float

    @property
    def uses_ratings(self) -> bool:
        """Whether the members' own ratings enter their profile, or imputed values alone."""
        return not self.model or self.keep_observed


def params(config: ReleaseConfig) -> Params:
    """Pick this profiler's settings."""
    return Params(
        **config.privacy.model_dump(include={"min_contributors", "rating_step"}),
        model=config.microaggregation.imputation == "model",
        keep_observed=config.padding.keep_observed,
        scale=config.source.scale,
    )


def make(job: Job) -> int:
    """Average blocks of groups in parallel."""
    ratings = Ratings(job.ratings)
    model = job.params.model
    return write_parts(
        job,
        lambda order, starts: _blocks(ratings, order, starts),
        _average_block,
        ingest=job.ratings,
        imputed=job.inputs["padding"] if model else job.inputs["clustering"] / "imputed",
        params=job.params,
    )


def _blocks(ratings: Ratings, order: np.ndarray, starts: np.ndarray) -> list[tuple[int, int]]:
    """Consecutive groups that fit into memory together; they follow the data, not the workers."""
    rated = np.add.reduceat(ratings.by_user.counts()[order], starts[:-1])
    fill = np.cumsum(ratings.n_items / CELLS_PER_BLOCK + rated / RATINGS_PER_BLOCK).astype(np.int64)
    return list(pairwise([0, *(np.flatnonzero(np.diff(fill)) + 1).tolist(), len(fill)]))


def _average_block(
    block: tuple[tuple[int, int], Path], *, ingest: Path, imputed: Path, members: Path, params: Params
) -> int:
    (start, _), path = block
    users, sizes = members_of(members, block[0])
    labels = np.repeat(np.arange(len(sizes)), sizes)
    model = open_model(imputed)
    model = LowRank(np.asarray(model.users[users]), np.asarray(model.items), model.mean)
    shifts = None
    if params.uses_ratings:
        observed, made_up = Ratings(ingest).by_user.take(users), Ratings(ingest).made_up_of(users)
        shifts = observed_shifts(model, observed, labels, sizes, params.min_contributors, made_up)
    means = model.group_means(labels, len(sizes))
    codes = padded_codes(means, shifts, params.scale, params.rating_step)
    profiles.write_dense(path, start, sizes, codes)
    return codes.size
