"""Make the profiles of Predictive Anonymization, one for all members of a group ([Chang2009], sections 4.3 and 5.2).

*padded*: every item, the mean of the members' predictions (with `keep_observed`, observed ratings enter it).
*simple*: the union of the members' items, the mean of those who rated. Items with fewer than `level_only_below` raters
show predictions: two made-up accounts in a rare item's group would complete `min_contributors`.
*boosted*: the same items, plus the most confidently predicted other ones up to `density`; every value is the mean of
the members' predictions, since means of real ratings would stand out of them and mark the other items as added (with
`keep_observed`, they are published nevertheless).
Whatever the method, a cell with fewer than `min_contributors` real ratings shows predictions only.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.factors import open_model
from tasks.data.mean_predictions import mean_predictions
from tasks.data.ratings import Ratings
from tasks.kernels.group_profiles import (
    boost_profiles,
    group_cells,
    observed_shifts,
    padded_codes,
    simple_profiles,
)
from tasks.kernels.padded import LowRank, encode
from tasks.pipeline import StepContext
from tasks.profilers import Inputs
from tasks.profilers._parts import equal_ranges, members_of, sorted_by_group, write_parts

# Groups × items of a block at most: a padded one holds a byte or two of each, a boosted one four floats.
CELLS_PER_BLOCK = {"predictive-padded": 32_000_000, "predictive-boosted": 4_000_000}
RATINGS_PER_BLOCK = 1_000_000  # where the members' ratings are read


class Params(Settings):
    """Hold what is published of a group."""

    method: str
    min_contributors: int
    level_only_below: int
    keep_observed: bool
    density: float
    clip_groups: float
    scale: tuple[float, float]
    rating_step: float

    @property
    def uses_ratings(self) -> bool:
        """Return whether the members' own ratings are read: for the items of their profile, or for its values."""
        return self.method != "predictive-padded" or self.keep_observed

    @property
    def fewest_shown(self) -> float:
        """Return how many real ratings a cell needs to show their mean; infinite: it shows predictions alone."""
        return self.min_contributors if self.method == "predictive-simple" or self.keep_observed else np.inf


def params(config: ReleaseConfig) -> Params:
    """Pick this profiler's settings."""
    chosen = config.privacy.model_dump(
        include={"method", "min_contributors", "density", "clip_groups", "rating_step"}
    )
    model = config.padding.model_dump(include={"level_only_below", "keep_observed"})
    return Params(**chosen, **model, scale=config.source.scale)


def make(context: StepContext[Params], inputs: Inputs) -> int:
    """Homogenize blocks of groups in parallel, or in this process where predictions alone are published."""
    params = context.params
    if not params.uses_ratings:
        return _write_predictions(context, inputs)
    ratings, means = Ratings(inputs.ratings), context.out / "means.npy"
    np.save(means, mean_predictions(inputs.model, inputs.label_file, params.clip_groups).users)
    cells = write_parts(
        context,
        inputs.label_file,
        lambda order, starts: _blocks(ratings, order, starts, params),
        _homogenize_block,
        ratings=ratings,
        factors=inputs.model,
        group_means=means,
        params=params,
    )
    means.unlink()
    return cells


def _write_predictions(context: StepContext[Params], inputs: Inputs) -> int:
    """Write mean predictions, multiplied out here: that takes less time than to write and read parts."""
    params = context.params
    means = mean_predictions(inputs.model, inputs.label_file, params.clip_groups)
    order, starts = sorted_by_group(inputs.label_file)
    items = np.asarray(means.items)
    ranges = _blocks(Ratings(inputs.ratings), order, starts, params)

    def blocks() -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        for done, (start, stop) in enumerate(ranges):
            context.progress(done, len(ranges))
            sizes = np.diff(starts[start : stop + 1])
            own = LowRank(means.users[start:stop], items, means.mean)
            yield start, sizes, padded_codes(own, None, params.scale, params.rating_step)

    return profiles.write_dense_blocks(context.out / "groups.parquet", blocks())


def _blocks(ratings: Ratings, order: np.ndarray, starts: np.ndarray, params: Params) -> list[tuple[int, int]]:
    """Return ranges of groups that fit into memory together."""
    most = CELLS_PER_BLOCK.get(params.method)
    fill = np.full(len(starts) - 1, ratings.n_items / most if most else 0.0)
    if params.uses_ratings:
        fill += np.add.reduceat(ratings.by_user.counts()[order], starts[:-1]) / RATINGS_PER_BLOCK
    return equal_ranges(fill)


def _homogenize_block(
    block: tuple[tuple[int, int], Path],
    *,
    ratings: Ratings,
    factors: Path,
    group_means: Path,
    members: Path,
    params: Params,
) -> int:
    (start, stop), path = block
    users, sizes = members_of(members, block[0])
    labels = np.repeat(np.arange(len(sizes)), sizes)
    model = open_model(factors)
    model = LowRank(np.asarray(model.users[users]), np.asarray(model.items), model.mean)
    means = LowRank(
        np.asarray(np.load(group_means, mmap_mode="r")[start:stop]), np.asarray(model.items), model.mean
    )
    if params.method == "predictive-padded":
        observed, made_up = ratings.by_user.take(users), ratings.made_up_of(users)
        shifts = observed_shifts(model, observed, labels, sizes, params.min_contributors, made_up)
        codes = padded_codes(means, shifts, params.scale, params.rating_step)
        profiles.write_dense(path, start, sizes, codes)
        return codes.size
    cells = group_cells(ratings.by_user.take(users), labels, len(sizes), ratings.made_up_of(users))
    common = ratings.real_raters() >= params.level_only_below
    released = simple_profiles(means, cells, params.fewest_shown, common)
    if params.method == "predictive-boosted":
        spread = model.group_variances(labels, len(sizes), np.arange(len(model.items)))
        released = boost_profiles(released, means, spread, ratings.by_item.counts(), params.density)
    codes = encode(released.data, params.scale, params.rating_step)
    coded = sp.csr_array((codes, released.indices, released.indptr), shape=released.shape)
    profiles.write_sparse(path, start, sizes, coded)
    return released.nnz
