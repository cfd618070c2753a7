"""Group the k nearest records by MDAV or V-MDAV on z-scores of the filled ratings ([Casino2015], section 3, steps 1–3).

Missing ratings are imputed, every item is standardised over all users (population deviation; 1 where all users have
the same value), and groups are formed by Euclidean distance ([DomingoFerrer2005], [Solanas2006]). The cost is quadratic
in the number of users; where it is too high (`reach`), the step refuses, or groups are formed inside the bins of
similar users (`within_bins`), whose z-scores are still those of all users.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.factors import open_model
from tasks.data.imputation import write_imputed
from tasks.data.ratings import Ratings
from tasks.errors import UsageError
from tasks.groupings import Inputs
from tasks.groupings._bins import group_in_bins
from tasks.kernels.mdav import mdav, v_mdav
from tasks.pipeline import StepContext

CELLS_PER_BLOCK = 4_000_000  # of filled rows in memory beside the z-scores
RANGES = 32  # of users, over which items are summed up in parallel
CONSTANT = 1e-12  # of the mean square: below it a variance is rounding
MOST_CELLS = 100_000_000  # users × items of one call: 12 bytes each, 8 as float64 and 4 as float32
MOST_COMPARED = 2e12  # users² × items / 2k, the values one call compares: about ten CPU-minutes


class Params(Settings):
    """Hold what is filled in for missing ratings, how groups are formed, and whether inside bins."""

    imputation: str
    min_contributors: int
    scale: tuple[float, float]
    k: int
    variable: bool
    gamma: float
    within_bins: bool


def params(config: ReleaseConfig) -> Params:
    """Pick this grouping's settings."""
    return Params(
        **config.microaggregation.model_dump(),
        min_contributors=config.privacy.min_contributors,
        scale=config.source.scale,
        k=config.privacy.k,
    )


def group(context: StepContext[Params], inputs: Inputs) -> np.ndarray:
    """Group all users at once, or the bins in parallel."""
    chosen = context.params
    ratings = Ratings(inputs.ratings)
    largest = ratings.n_users
    if chosen.within_bins:
        largest = int(np.bincount(np.load(inputs.bin_file)).max())
    reach(largest, ratings.n_items, chosen)
    if chosen.imputation == "model":
        imputed = inputs.model
    else:  # the profiler reads it there, too
        imputed = context.out / "imputed"
        fewest = chosen.min_contributors
        write_imputed(imputed, ratings, chosen.imputation, scale=chosen.scale, fewest=fewest)
    standard = context.out / "standard.npy"
    np.save(standard, _mean_and_deviation(context, ratings, imputed))
    common = {"ratings": ratings, "imputed": imputed, "standard": standard, "params": chosen}
    if chosen.within_bins:
        labels = group_in_bins(context, inputs.bin_file, _group_some, **common)
    else:
        labels = _group_strata(context, ratings.strata(), common)
    standard.unlink()
    return labels


def _group_strata(context: StepContext[Params], strata: np.ndarray, common: dict[str, Any]) -> np.ndarray:
    """Group all users of each stratum at once."""
    members = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    blocks = [(users, None) for users in members]
    found = context.engine.map(_group_some, blocks, progress=context.progress, **common)
    labels, used = np.empty(len(strata), np.int64), 0
    for users, within in zip(members, found, strict=True):
        labels[users] = used + within
        used += int(within.max()) + 1
    return labels


def reach(users: int, items: int, params: Params) -> None:
    """Refuse more users and items than one call can hold in memory or compare in reasonable time."""
    compared = users**2 * items / (2 * params.k)
    if users * items <= MOST_CELLS and compared <= MOST_COMPARED:
        return
    remedy = "set microaggregation.within_bins = true: groups are then formed inside bins of similar users"
    if params.within_bins:
        remedy = "use predictive-padded, whose groups are formed in the space of the factors"
    people = f"{users:,} users" + (" of one bin" if params.within_bins else "")
    raise UsageError(
        f"MDAV over {people} and {items:,} items is out of reach: users × items may be at most {MOST_CELLS:,} and "
        f"users² × items / 2k at most {MOST_COMPARED:.0e}",
        where="clustering",
        remedy=remedy,
    )


def _mean_and_deviation(context: StepContext[Params], ratings: Ratings, imputed: Path) -> np.ndarray:
    """Return the mean and deviation of every item over all filled rows."""
    users = ratings.n_users
    ranges = list(pairwise(np.linspace(0, users, min(users, RANGES) + 1).astype(int).tolist()))
    centre = sum(context.params.scale) / 2
    parts = context.engine.map(_moments, ranges, ratings=ratings, imputed=imputed, centre=centre)
    total, squares, low, high = (np.array(part) for part in zip(*parts, strict=True))
    mean = total.sum(axis=0) / users
    square = squares.sum(axis=0) / users
    variance = np.maximum(square - mean**2, 0)
    # A mean imputed where all ratings are equal may differ in its last digit: that is rounding, not variance.
    same = (low.min(axis=0) == high.max(axis=0)) | (variance <= CONSTANT * square)
    return np.array([mean + centre, np.sqrt(np.where(same, 1.0, variance))])


def _moments(
    block: tuple[int, int], *, ratings: Ratings, imputed: Path, centre: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return sum, sum of squares, minimum and maximum of every item's values less `centre`, over a range of users."""
    items = ratings.n_items
    total, squares, low, high = (
        np.zeros(items),
        np.zeros(items),
        np.full(items, np.inf),
        np.full(items, -np.inf),
    )
    for users in _slices(np.arange(*block), items):
        rows = _filled(users, ratings, imputed).astype(np.float64) - centre
        total += rows.sum(axis=0)
        squares += np.einsum("ui,ui->i", rows, rows)
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return total, squares, low, high


def _slices(users: np.ndarray, items: int) -> list[np.ndarray]:
    """Split users into parts whose rows fit into memory together."""
    width = max(1, CELLS_PER_BLOCK // items)
    return [users[start : start + width] for start in range(0, len(users), width)]


def _filled(users: np.ndarray, ratings: Ratings, imputed: Path) -> np.ndarray:
    return open_model(imputed).padded_rows(users, ratings.by_user.take(users))


def _group_some(
    block: tuple[np.ndarray, object], *, ratings: Ratings, imputed: Path, standard: Path, params: Params
) -> np.ndarray:
    users, _ = block  # nothing here is random
    mean, deviation = np.load(standard)
    points = np.empty((len(users), len(mean)))
    done = 0
    for some in _slices(users, len(mean)):
        rows = points[done : done + len(some)]
        np.subtract(_filled(some, ratings, imputed), mean, out=rows)
        rows /= deviation
        done += len(some)
    return v_mdav(points, params.k, params.gamma) if params.variable else mdav(points, params.k)
