"""Diversity: top up items (and sets of items) until enough groups hold them (paper section 5.1).

Enough: at least l, so that an item alone singles out nobody's group, and so many that the members of a group that
holds an item are hardly more likely to have rated it than if people rated independently.
"""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.errors import Refused
from tasks.kernels.diversify import TooManySets, decoys, deficient_sets, top_up_items, top_up_sets
from tasks.kernels.homogenize import add_cells
from tasks.kernels.padded import LowRank, code_type, encode
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.steps.padding import open_model
from tasks.store import link

# The gate allows 0.015 above what independent ratings would show (SCIENCE P0, "Attacks"); stay clear of it.
LINK_MARGIN = 0.008


class Params(Settings):
    """The promise, the price we are ready to pay for it, and the form of published ratings."""

    l: int  # noqa: E741
    b: int
    max_growth: float
    scale: tuple[float, float]
    rating_step: float


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(
        **config.privacy.model_dump(include={"l", "b", "max_growth", "rating_step"}),
        scale=config.source.scale,
    )


def run(job: Job) -> dict[str, Any]:
    """Copy a release in which every group holds everything; top up any other."""
    source, target = job.inputs["homogenization"] / "groups.parquet", job.out / "groups.parquet"
    sizes = profiles.read_sizes(source)
    if len(sizes) < job.params.l:
        raise Refused(
            f"(1,{job.params.l})-diversity needs {job.params.l} groups, there are {len(sizes)}",
            where="privacy.l",
            remedy="lower privacy.l or privacy.k, or release more users",
        )
    if profiles.is_dense(source):
        link(source, target)
        return {"added_cells": 0, "groups": len(sizes)}
    [added] = job.engine.map(
        _top_up,
        [(source, job.rng("decoys"))],
        target=target,
        ingest=job.inputs["ingest"],
        padding=job.inputs["padding"],
        clustering=job.inputs["clustering"],
        params=job.params,
    )
    return {**added, "groups": len(sizes)}


def _top_up(
    block: tuple[Path, np.random.Generator],
    *,
    target: Path,
    ingest: Path,
    padding: Path,
    clustering: Path,
    params: Params,
) -> dict:
    source, rng = block
    sizes = profiles.read_sizes(source)
    kind = code_type(params.scale, params.rating_step)
    ratings = Ratings(ingest)
    released = profiles.read_sparse(source, ratings.n_items, kind)
    labels = np.load(clustering / "labels.npy")
    model = open_model(padding)
    means = model.group_means(labels, len(sizes))

    def spread(items: np.ndarray) -> np.ndarray:
        return model.group_spread(labels, len(sizes), items)

    def add(group: np.ndarray, item: np.ndarray, matrix: sp.csr_array) -> sp.csr_array:
        return add_cells(matrix, group, item, _codes(means, group, item, params))

    before = released.nnz
    items = top_up_items(released, params.l, spread)
    released = add(items.group, items.item, released)
    hiding = decoys(released, ratings.by_item.counts(), sizes, LINK_MARGIN, rng)
    released = add(hiding.group, hiding.item, released)
    if params.b > 1:
        rated = ratings.by_user.whole()
        for size in range(2, params.b + 1):
            group, item = _mend_sets(rated, released, size, spread, params)
            released = add(group, item, released)
    codes = sp.csr_array(
        ((released.data - 1).astype(kind), released.indices, released.indptr), shape=released.shape
    )
    part = target.with_name("part.parquet")
    profiles.write_sparse(part, 0, sizes, codes)
    profiles.join([part], target)
    return {"added_cells": int(released.nnz - before), "cells": int(released.nnz)}


def _mend_sets(
    rated: sp.csr_array, released: sp.csr_array, size: int, spread: Any, params: Params
) -> tuple[np.ndarray, np.ndarray]:
    """Cells that bring every really rated set of `size` items into l groups; refuses when that costs too much."""
    budget = int(params.max_growth * released.nnz)
    promise = f"({size},{params.l})-diversity"
    remedy = "lower privacy.b or privacy.l, choose a larger privacy.k, or use predictive-padded, which always has it"
    try:
        lacking = deficient_sets(rated, released, size, params.l)
    except TooManySets as error:
        raise Refused(
            f"{promise}: {error.count:,} sets of {size} items were rated together, too many to examine",
            where="privacy.b",
            remedy=remedy,
        ) from None
    additions = top_up_sets(released, lacking, params.l, spread, budget)
    if not additions.complete:
        raise Refused(
            f"{promise} cannot be reached at a bearable cost: {len(lacking):,} sets of {size} items lie in fewer than "
            f"{params.l} groups, and mending them would add more than {budget:,} cells "
            f"({params.max_growth:.0%} of the {released.nnz:,} released)",
            where="privacy.b, privacy.max_growth",
            remedy=remedy,
        )
    return additions.group, additions.item


def _codes(means: LowRank, group: np.ndarray, item: np.ndarray, params: Params) -> np.ndarray:
    """Labels of fake cells: the members' mean prediction, never an observed rating (stored one up, as read)."""
    return encode(means.cells(group, item), params.scale, params.rating_step).astype(np.int32) + 1
