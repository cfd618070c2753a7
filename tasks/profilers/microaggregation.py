"""Publish centroids: for every item the mean of the members' filled ratings ([Casino2015], section 3, steps 3 to 5).

The centroid of z-scores, de-standardised, is the mean of the filled ratings: that is what is published. A cell with
fewer than `min_contributors` real ratings shows the mean of the members' imputed values alone. With model imputation
and `padding.keep_observed` false no observed rating enters any cell: observed ratings only form the groups
(docs/leaks-and-bars.md).
"""

from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.factors import open_model
from tasks.data.mean_predictions import mean_predictions
from tasks.data.ratings import Ratings
from tasks.kernels.group_profiles import observed_shifts, padded_codes
from tasks.kernels.padded import LowRank
from tasks.pipeline import StepContext
from tasks.profilers import Inputs
from tasks.profilers._parts import equal_ranges, members_of, write_parts

CELLS_PER_BLOCK = 32_000_000  # of groups × items, a byte or two each
RATINGS_PER_BLOCK = 1_000_000


class Params(Settings):
    """Hold what is published of a group."""

    model: bool
    min_contributors: int
    keep_observed: bool
    clip_groups: float
    scale: tuple[float, float]
    rating_step: float

    @property
    def uses_ratings(self) -> bool:
        """Return whether the members' own ratings enter their profile, or imputed values alone."""
        return not self.model or self.keep_observed


def params(config: ReleaseConfig) -> Params:
    """Pick this profiler's settings."""
    return Params(
        **config.privacy.model_dump(include={"min_contributors", "clip_groups", "rating_step"}),
        model=config.microaggregation.imputation == "model",
        keep_observed=config.padding.keep_observed,
        scale=config.source.scale,
    )


def make(context: StepContext[Params], inputs: Inputs) -> int:
    """Average blocks of groups in parallel."""
    ratings, means = Ratings(inputs.ratings), context.out / "means.npy"
    imputed = inputs.model if context.params.model else inputs.groups / "imputed"
    # Constants do not describe anybody's taste: there is nothing to clip.
    clip = context.params.clip_groups if context.params.model else 1.0
    np.save(means, mean_predictions(imputed, inputs.label_file, clip).users)
    cells = write_parts(
        context,
        inputs.label_file,
        lambda order, starts: _blocks(ratings, order, starts),
        _average_block,
        ratings=ratings,
        imputed=imputed,
        group_means=means,
        params=context.params,
    )
    means.unlink()
    return cells


def _blocks(ratings: Ratings, order: np.ndarray, starts: np.ndarray) -> list[tuple[int, int]]:
    """Return ranges of groups that fit into memory together."""
    rated = np.add.reduceat(ratings.by_user.counts()[order], starts[:-1])
    return equal_ranges(ratings.n_items / CELLS_PER_BLOCK + rated / RATINGS_PER_BLOCK)


def _average_block(
    block: tuple[tuple[int, int], Path],
    *,
    ratings: Ratings,
    imputed: Path,
    group_means: Path,
    members: Path,
    params: Params,
) -> int:
    (start, stop), path = block
    users, sizes = members_of(members, block[0])
    labels = np.repeat(np.arange(len(sizes)), sizes)
    model = open_model(imputed)
    model = LowRank(np.asarray(model.users[users]), np.asarray(model.items), model.mean)
    shifts = None
    if params.uses_ratings:
        observed, made_up = ratings.by_user.take(users), ratings.made_up_of(users)
        shifts = observed_shifts(model, observed, labels, sizes, params.min_contributors, made_up)
    means = LowRank(np.asarray(np.load(group_means, mmap_mode="r")[start:stop]), model.items, model.mean)
    codes = padded_codes(means, shifts, params.scale, params.rating_step)
    profiles.write_dense(path, start, sizes, codes)
    return codes.size
