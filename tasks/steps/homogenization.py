"""Homogenization: the members of a group get one and the same profile (paper sections 4.3 and 5.2).

*padded*: every item, the mean of the members' predictions (with `keep_observed`, observed ratings enter it).
*simple*: the union of the members' items, the mean of those who rated.
*boosted*: simple, plus the most confidently predicted other items up to `density`.
Whatever the method, a cell with fewer than `min_contributors` real ratings shows predictions only.
"""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.homogenize import boost, group_cells, padded_profiles, simple_profiles
from tasks.kernels.padded import LowRank, encode
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.steps.padding import open_model

CELLS_PER_BLOCK = 8_000_000


class Params(Settings):
    """What is published of a group."""

    method: str
    min_contributors: int
    keep_observed: bool
    density: float
    scale: tuple[float, float]
    rating_step: float


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    chosen = config.privacy.model_dump(include={"method", "min_contributors", "density", "rating_step"})
    return Params(**chosen, keep_observed=config.padding.keep_observed, scale=config.source.scale)


def run(job: Job) -> dict[str, Any]:
    """Homogenize blocks of groups in parallel and join their profiles."""
    labels = np.load(job.inputs["clustering"] / "labels.npy")
    groups = int(labels.max()) + 1
    width = max(1, CELLS_PER_BLOCK // Ratings(job.inputs["ingest"]).n_items)
    blocks = [(start, min(start + width, groups)) for start in range(0, groups, width)]
    parts = [job.out / f"part-{number:05}.parquet" for number in range(len(blocks))]
    cells = job.engine.map(
        _homogenize_block,
        list(zip(blocks, parts, strict=True)),
        progress=job.progress,
        ingest=job.inputs["ingest"],
        padding=job.inputs["padding"],
        clustering=job.inputs["clustering"],
        params=job.params,
    )
    profiles.join(parts, job.out / "groups.parquet")
    return {"groups": groups, "cells": sum(cells)}


def _homogenize_block(
    block: tuple[tuple[int, int], Path], *, ingest: Path, padding: Path, clustering: Path, params: Params
) -> int:
    (start, stop), path = block
    labels = np.load(clustering / "labels.npy", mmap_mode="r")
    users = np.flatnonzero((labels >= start) & (labels < stop))
    local = np.asarray(labels[users]) - start
    sizes = np.bincount(local, minlength=stop - start)
    model = open_model(padding)
    model = LowRank(np.asarray(model.users[users]), np.asarray(model.items), model.mean)
    ratings = Ratings(ingest)
    observed = ratings.by_user.take(users)

    def code(values: np.ndarray) -> np.ndarray:
        return encode(values, params.scale, params.rating_step)

    if params.method == "predictive-padded":
        values = padded_profiles(model, observed, local, sizes, params.min_contributors, params.keep_observed)
        profiles.write_dense(path, start, sizes, code(values))
        return values.size
    cells = group_cells(observed, local)
    means = model.group_means(local, len(sizes))
    released = simple_profiles(means, cells, params.min_contributors)
    if params.method == "predictive-boosted":
        spread = model.group_spread(local, len(sizes), np.arange(len(model.items)))
        released = boost(released, means, spread, ratings.by_item.counts(), params.density)
    codes = sp.csr_array((code(released.data), released.indices, released.indptr), shape=released.shape)
    profiles.write_sparse(path, start, sizes, codes)
    return released.nnz
