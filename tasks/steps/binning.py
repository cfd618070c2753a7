"""Binning: every user goes to the nearest centre (paper section 4.2, step 2.3; Algorithm 1, line 4).

A bin of fewer than k could not be grouped at all, and one that makes only a few groups is grouped badly: what its
size leaves over must go somewhere. So small bins are merged into their nearest neighbours.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.metrics import distances
from tasks.kernels.points import Points
from tasks.kernels.pruning import nearest_points
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.similarity import Similarity

GROUPS_PER_BIN = 16  # a bin should make at least so many groups; see docs/decisions


class Params(Settings):
    """How users are compared, and the size below which a bin does not stand alone."""

    similarity: Similarity
    least_users: int


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(similarity=Similarity.of(config), least_users=GROUPS_PER_BIN * config.privacy.k)


def run(job: Job) -> dict[str, Any]:
    """Assign everybody block by block, then merge small bins into their nearest neighbours."""
    ratings = Ratings(job.ratings)
    users, width = ratings.n_users, job.params.similarity.users_at_once(ratings.n_items)
    blocks = [(start, min(start + width, users)) for start in range(0, users, width)]
    centers = job.inputs["centers"] / "centers.npy"
    parts = job.engine.map(
        _nearest_centers,
        blocks,
        progress=job.progress,
        ingest=job.ratings,
        padding=job.inputs["padding"],
        centers=centers,
        params=job.params,
    )
    bins = np.concatenate(parts)
    virtual = job.params.similarity.as_points(job.inputs["padding"], np.load(centers))
    merged = merge_small_bins(bins, virtual, job.params)
    np.save(job.out / "bins.npy", merged)
    sizes = np.bincount(merged)
    sizes = sizes[sizes > 0]
    before = np.bincount(bins)
    return {
        "bins": len(sizes),
        "merged": int((before > 0).sum()) - len(sizes),
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
    }


def _nearest_centers(
    block: tuple[int, int], *, ingest: Path, padding: Path, centers: Path, params: Params
) -> np.ndarray:
    users = params.similarity.points(ingest, padding, np.arange(*block))
    virtual = params.similarity.as_points(padding, np.load(centers))
    index, _ = nearest_points(users, virtual, **params.similarity.measure)
    return index


def merge_small_bins(bins: np.ndarray, centers: Points, params: Params) -> np.ndarray:
    """Bins of too few users join the nearest bin, smallest first, until none is left (or one holds everybody)."""
    bins = bins.astype(np.int32)
    between: np.ndarray | None = None
    while True:
        sizes = np.bincount(bins, minlength=len(centers))
        small = np.flatnonzero((sizes > 0) & (sizes < params.least_users))
        if len(small) == 0 or (sizes > 0).sum() == 1:
            return bins
        if between is None:
            rows = centers.rows(slice(None))
            between = distances(rows, rows, **params.similarity.measure)
        smallest = small[np.argmin(sizes[small])]
        reachable = np.where((sizes > 0) & (np.arange(len(sizes)) != smallest), between[smallest], np.inf)
        bins[bins == smallest] = np.argmin(reachable)
