"""MDAV or V-MDAV on z-scores of the filled ratings (paper 003, section 3, steps 1 to 3): k nearest records a group.

Missing ratings are imputed, every item is standardised over all users (population deviation; 1 where everybody has
the same value), and groups are formed by Euclidean distance. The cost is quadratic in the users; beyond `reach` it
is refused, or done inside the bins of similar users (`within_bins`), whose z-scores are still those of all users.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.errors import UsageError
from tasks.groupings._bins import group_in_bins
from tasks.imputation import write_imputed
from tasks.kernels.mdav import mdav, v_mdav
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.steps.padding import open_model

CELLS_PER_BLOCK = 4_000_000  # of filled rows that lie in memory beside the z-scores
RANGES = 32  # of users, over which items are summed up side by side
CONSTANT = 1e-12  # of the mean square: below it a variance is rounding
MOST_CELLS = 100_000_000  # users × items of one call: 12 bytes each, 8 as float64 and 4 as float32
MOST_COMPARED = 2e12  # users² × items / 2k, what one call compares: about ten CPU-minutes


class Params(Settings):
    """What is filled in for missing ratings, how groups are formed, and where."""

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


def group(job: Job) -> np.ndarray:
    """Group everybody at once, or the bins in parallel."""
    ingest, chosen = job.ratings, job.params
    ratings = Ratings(ingest)
    largest = ratings.n_users
    if chosen.within_bins:
        largest = int(np.bincount(np.load(job.inputs["binning"] / "bins.npy")).max())
    reach(largest, ratings.n_items, chosen)
    if chosen.imputation == "model":
        imputed = job.inputs["padding"]
    else:  # left there for the profiler
        imputed = job.out / "imputed"
        fewest = chosen.min_contributors
        write_imputed(imputed, ingest, chosen.imputation, scale=chosen.scale, fewest=fewest)
    standard = job.out / "standard.npy"
    np.save(standard, _standard(job, imputed))
    common = {"ingest": ingest, "imputed": imputed, "standard": standard, "params": chosen}
    if chosen.within_bins:
        labels = group_in_bins(job, _group_some, **common)
    else:
        everybody = np.arange(ratings.n_users)
        [labels] = job.engine.map(_group_some, [(everybody, None)], progress=job.progress, **common)
    standard.unlink()
    return labels


def reach(users: int, items: int, params: Params) -> None:
    """Refuse what one call would hold or compare for too long."""
    compared = users**2 * items / (2 * params.k)
    if users * items <= MOST_CELLS and compared <= MOST_COMPARED:
        return
    remedy = "set microaggregation.within_bins = true: groups are then formed inside bins of similar users"
    if params.within_bins:
        remedy = "use predictive-padded, whose groups are formed in the space of the factors"
    people = f"{users:,} users" + (" of one bin" if params.within_bins else "")
    raise UsageError(
        f"MDAV over {people} and {items:,} items is out of reach: users × items may be {MOST_CELLS:,} and "
        f"users² × items / 2k {MOST_COMPARED:.0e}",
        where="clustering",
        remedy=remedy,
    )


def _standard(job: Job, imputed: Path) -> np.ndarray:
    """Mean and deviation of every item over all filled rows."""
    users = Ratings(job.ratings).n_users
    ranges = list(pairwise(np.linspace(0, users, min(users, RANGES) + 1).astype(int).tolist()))
    centre = sum(job.params.scale) / 2
    parts = job.engine.map(_moments, ranges, ingest=job.ratings, imputed=imputed, centre=centre)
    total, squares, low, high = (np.array(part) for part in zip(*parts, strict=True))
    mean = total.sum(axis=0) / users
    square = squares.sum(axis=0) / users
    variance = np.maximum(square - mean**2, 0)
    # A mean filled in for what everybody rated alike may be off by its last digit: that is rounding, not spread.
    same = (low.min(axis=0) == high.max(axis=0)) | (variance <= CONSTANT * square)
    return np.array([mean + centre, np.sqrt(np.where(same, 1.0, variance))])


def _moments(
    block: tuple[int, int], *, ingest: Path, imputed: Path, centre: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sum, sum of squares, least and largest of every item's values, all from the centre, over a range of users."""
    items = Ratings(ingest).n_items
    total, squares, low, high = (
        np.zeros(items),
        np.zeros(items),
        np.full(items, np.inf),
        np.full(items, -np.inf),
    )
    for users in _slices(np.arange(*block), items):
        rows = _filled(users, ingest, imputed).astype(np.float64) - centre
        total += rows.sum(axis=0)
        squares += np.einsum("ui,ui->i", rows, rows)
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return total, squares, low, high


def _slices(users: np.ndarray, items: int) -> list[np.ndarray]:
    """Users whose rows lie in memory together."""
    width = max(1, CELLS_PER_BLOCK // items)
    return [users[start : start + width] for start in range(0, len(users), width)]


def _filled(users: np.ndarray, ingest: Path, imputed: Path) -> np.ndarray:
    return open_model(imputed).padded_rows(users, Ratings(ingest).by_user.take(users))


def _group_some(
    block: tuple[np.ndarray, object], *, ingest: Path, imputed: Path, standard: Path, params: Params
) -> np.ndarray:
    users, _ = block  # nothing here is random
    mean, spread = np.load(standard)
    points = np.empty((len(users), len(mean)))
    done = 0
    for some in _slices(users, len(mean)):
        rows = points[done : done + len(some)]
        np.subtract(_filled(some, ingest, imputed), mean, out=rows)
        rows /= spread
        done += len(some)
    return v_mdav(points, params.k, params.gamma) if params.variable else mdav(points, params.k)
