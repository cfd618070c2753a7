"""Homogenization: the members of a group get one and the same profile (paper sections 4.3 and 5.2).

*padded*: every item, the mean of the members' predictions (with `keep_observed`, observed ratings enter it).
*simple*: the union of the members' items, the mean of those who rated.
*boosted*: simple, plus the most confidently predicted other items up to `density`.
Whatever the method, a cell with fewer than `min_contributors` real ratings shows predictions only.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.homogenize import boost, group_cells, observed_shifts, padded_codes, simple_profiles
from tasks.kernels.padded import LowRank, encode
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.steps.padding import open_model
from tasks.store import remove

# What a block may have of groups × items: a padded one holds a byte or two of each, a boosted one four floats.
CELLS_PER_BLOCK = {"predictive-padded": 32_000_000, "predictive-boosted": 4_000_000}
RATINGS_PER_BLOCK = 1_000_000  # where the members' ratings are read


class Params(Settings):
    """What is published of a group."""

    method: str
    min_contributors: int
    keep_observed: bool
    density: float
    scale: tuple[float, float]
    rating_step: float

    @property
    def uses_ratings(self) -> bool:
        """Whether the members' own ratings enter their profile, or their predictions alone."""
        return self.method != "predictive-padded" or self.keep_observed


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    chosen = config.privacy.model_dump(include={"method", "min_contributors", "density", "rating_step"})
    return Params(**chosen, keep_observed=config.padding.keep_observed, scale=config.source.scale)


def run(job: Job) -> dict[str, Any]:
    """Homogenize blocks of groups in parallel and join their profiles."""
    labels = np.load(job.inputs["clustering"] / "labels.npy")
    members = job.out / "members"  # sorted by group once, so that a block finds its own without a search
    members.mkdir()
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    np.save(members / "order.npy", order)
    np.save(members / "starts.npy", starts)
    blocks = _blocks(Ratings(job.inputs["ingest"]), order, starts, job.params)
    parts = [job.out / f"part-{number:05}.arrow" for number in range(len(blocks))]
    cells = job.engine.map(
        _homogenize_block,
        list(zip(blocks, parts, strict=True)),
        progress=lambda done, total: job.progress(done, 2 * total),
        ingest=job.inputs["ingest"],
        padding=job.inputs["padding"],
        members=members,
        params=job.params,
    )
    joined = job.out / "groups.parquet"
    profiles.join(parts, joined, lambda done: job.progress(len(parts) + done, 2 * len(parts)))
    remove(members)
    return {"groups": len(starts) - 1, "cells": sum(cells)}


def _blocks(ratings: Ratings, order: np.ndarray, starts: np.ndarray, params: Params) -> list[tuple[int, int]]:
    """Consecutive groups that fit into memory together; they follow the data, not the workers."""
    most = CELLS_PER_BLOCK.get(params.method)
    fill = np.full(len(starts) - 1, ratings.n_items / most if most else 0.0)
    if params.uses_ratings:
        fill += np.add.reduceat(ratings.by_user.counts()[order], starts[:-1]) / RATINGS_PER_BLOCK
    number = np.cumsum(fill).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(fill)]
    return list(pairwise(edges))


def _homogenize_block(
    block: tuple[tuple[int, int], Path], *, ingest: Path, padding: Path, members: Path, params: Params
) -> int:
    (start, stop), path = block
    starts = np.asarray(np.load(members / "starts.npy", mmap_mode="r")[start : stop + 1])
    users = np.asarray(np.load(members / "order.npy", mmap_mode="r")[starts[0] : starts[-1]])
    sizes = np.diff(starts)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    model = open_model(padding)
    model = LowRank(np.asarray(model.users[users]), np.asarray(model.items), model.mean)
    means = model.group_means(labels, len(sizes))
    ratings = Ratings(ingest)
    if params.method == "predictive-padded":
        shifts = None
        if params.keep_observed:
            observed = ratings.by_user.take(users)
            shifts = observed_shifts(model, observed, labels, sizes, params.min_contributors)
        codes = padded_codes(means, shifts, params.scale, params.rating_step)
        profiles.write_dense(path, start, sizes, codes)
        return codes.size
    cells = group_cells(ratings.by_user.take(users), labels, len(sizes))
    released = simple_profiles(means, cells, params.min_contributors)
    if params.method == "predictive-boosted":
        spread = model.group_spread(labels, len(sizes), np.arange(len(model.items)))
        released = boost(released, means, spread, ratings.by_item.counts(), params.density)
    codes = encode(released.data, params.scale, params.rating_step)
    coded = sp.csr_array((codes, released.indices, released.indptr), shape=released.shape)
    profiles.write_sparse(path, start, sizes, coded)
    return released.nnz
