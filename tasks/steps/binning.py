"""Binning: assign every user to the nearest centre ([Chang2009], section 4.2, step 2.3; Algorithm 1, line 4).

A bin of fewer than k users cannot be grouped at all, and one that makes only a few groups is grouped badly, because
the users beyond a multiple of k must join one of these few groups. So small bins are merged into their nearest
neighbours.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.ratings import Ratings
from tasks.data.similarity import Similarity
from tasks.kernels.pruning import find_nearest
from tasks.kernels.rating_vectors import RatingVectors, distances_between
from tasks.pipeline import Job

RESULT = "bins"
GROUPS_PER_BIN = 16  # a bin should make at least this many groups; see docs/decisions


class Params(Settings):
    """Hold how users are compared, and the size below which a bin is merged."""

    similarity: Similarity
    least_users: int


@dataclass(frozen=True)
class Inputs:
    """Hold the directories this step reads."""

    ratings: Path
    factors: Path
    centers: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(similarity=Similarity.of(config), least_users=GROUPS_PER_BIN * config.privacy.k)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Assign all users block by block, then merge small bins into their nearest neighbours."""
    ratings = Ratings(job.inputs.ratings)
    users, width = ratings.n_users, job.params.similarity.users_at_once(ratings.n_items)
    blocks = [(start, min(start + width, users)) for start in range(0, users, width)]
    centers = job.inputs.centers / "centers.npy"
    parts = job.engine.map(
        _nearest_centers,
        blocks,
        progress=job.progress,
        ratings=job.inputs.ratings,
        factors=job.inputs.factors,
        centers=centers,
        params=job.params,
    )
    bins = np.concatenate(parts)
    virtual = job.params.similarity.as_points(job.inputs.factors, np.load(centers))
    merged = merge_inside_strata(bins, ratings.strata(), virtual, job.params)
    np.save(job.out / "bins.npy", merged)
    sizes = np.bincount(merged)
    sizes = sizes[sizes > 0]
    before = np.bincount(bins)
    return {
        "bins": len(sizes),
        "merged": max(0, int((before > 0).sum()) - len(sizes)),
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
    }


def _nearest_centers(
    block: tuple[int, int], *, ratings: Path, factors: Path, centers: Path, params: Params
) -> np.ndarray:
    users = params.similarity.points(ratings, factors, np.arange(*block))
    virtual = params.similarity.as_points(factors, np.load(centers))
    index, _ = find_nearest(users, virtual, **params.similarity.measure)
    return index


def merge_inside_strata(
    bins: np.ndarray, strata: np.ndarray, centers: RatingVectors, params: Params
) -> np.ndarray:
    """Return bins of which none has people of two strata (tasks/series/cohort.py), small ones merged."""
    merged, used = np.empty(len(bins), np.int32), 0
    for stratum in np.unique(strata):
        own = strata == stratum
        merged[own] = used + merge_small_bins(bins[own], centers, params)
        used += len(centers)
    return merged


def merge_small_bins(bins: np.ndarray, centers: RatingVectors, params: Params) -> np.ndarray:
    """Merge bins of too few users into the nearest bin, smallest first, until none is too small or one bin is left."""
    bins = bins.astype(np.int32)
    between: np.ndarray | None = None
    while True:
        sizes = np.bincount(bins, minlength=len(centers))
        small = np.flatnonzero((sizes > 0) & (sizes < params.least_users))
        if len(small) == 0 or (sizes > 0).sum() == 1:
            return bins
        if between is None:
            rows = centers.rows(slice(None))
            between = distances_between(
                centers, rows, slice(None), centers, rows, **params.similarity.measure
            )
        smallest = small[np.argmin(sizes[small])]
        reachable = np.where((sizes > 0) & (np.arange(len(sizes)) != smallest), between[smallest], np.inf)
        bins[bins == smallest] = np.argmin(reachable)
