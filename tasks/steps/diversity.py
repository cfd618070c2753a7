"""Diversity: top up items (and sets of items) until enough groups hold them (paper section 5.1).

Enough: at least l, so that an item alone singles out nobody's group, and so many that the members of a group that
holds an item are hardly more likely to have rated it than if people rated independently.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.errors import Refused
from tasks.kernels.diversify import (
    Additions,
    Holders,
    Spread,
    TooManySets,
    decoys,
    deficient_sets,
    require_examinable,
    top_up_items,
    top_up_sets,
)
from tasks.kernels.homogenize import add_cells
from tasks.kernels.padded import LowRank, code_type, encode
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.steps.padding import open_model
from tasks.store import link, remove

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
    work = job.out / "additions"
    work.mkdir()
    firsts = np.cumsum([0, *profiles.row_groups(source)])[:-1].tolist()
    parts = [job.out / f"part-{number:05}.arrow" for number in range(len(firsts))]
    stages = 2 * (1 + len(parts))  # finding what is missing takes about as long as adding it
    [before] = job.engine.map(
        _find_additions,
        [job.rng("decoys")],
        source=source,
        work=work,
        ingest=job.ratings,
        padding=job.inputs["padding"],
        clustering=job.inputs["clustering"],
        params=job.params,
    )
    job.progress(len(parts), stages)
    cells = job.engine.map(
        _add_block,
        list(zip(range(len(parts)), firsts, parts, strict=True)),
        progress=lambda done, total: job.progress(total + done, stages),
        source=source,
        padding=job.inputs["padding"],
        work=work,
        params=job.params,
    )
    profiles.join(parts, target)
    remove(work)
    return {"added_cells": sum(cells) - before, "cells": sum(cells), "groups": len(sizes)}


def _find_additions(
    rng: np.random.Generator,
    *,
    source: Path,
    work: Path,
    ingest: Path,
    padding: Path,
    clustering: Path,
    params: Params,
) -> int:
    """Leave the missing cells, by group, and the groups' mean predictions in `work`; count the cells there are."""
    sizes = profiles.read_sizes(source)
    kind = code_type(params.scale, params.rating_step)
    ratings = Ratings(ingest)
    labels = np.load(clustering / "labels.npy")
    model = open_model(padding)

    def held() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return (
            (block.items, block.lengths) for block in profiles.blocks(source, kind) if block.items is not None
        )

    def spread(items: np.ndarray) -> np.ndarray:
        return model.group_spread(labels, len(sizes), items)

    released = Holders.collect(held, ratings.n_items)
    found = [top_up_items(released, params.l, spread)]
    holders = released.joined_by(found[0])
    found.append(decoys(holders, ratings.by_item.counts(), sizes, LINK_MARGIN, rng))
    for size in range(2, params.b + 1):
        holders = holders.joined_by(found[-1])
        found.append(_mend_sets(ratings, holders, size, spread, params))
    group, item = (np.concatenate([getattr(some, side) for some in found]) for side in ("group", "item"))
    shape = (len(sizes), ratings.n_items)
    by_group = sp.coo_array((np.ones(len(group), np.int8), (group, item)), shape=shape).tocsr()
    np.save(work / "indptr.npy", by_group.indptr.astype(np.int64))
    np.save(work / "items.npy", by_group.indices.astype(np.int32))
    np.save(work / "means.npy", model.group_means(labels, len(sizes)).users)
    return len(released.groups)


def _mend_sets(ratings: Ratings, holders: Holders, size: int, spread: Spread, params: Params) -> Additions:
    """Cells that bring every really rated set of `size` items into l groups; refuses when that costs too much."""
    promise = f"({size},{params.l})-diversity"
    remedy = "lower privacy.b or privacy.l, choose a larger privacy.k, or use predictive-padded, which always has it"
    try:
        held = np.bincount(holders.groups, minlength=holders.n_groups)
        require_examinable(ratings.by_user.counts(), held, size, ratings.n_items)
    except TooManySets as error:
        raise Refused(
            f"{promise}: {error.count:,} sets of {size} items were rated or are held together, in {holders.n_groups:,} "
            f"groups and {ratings.n_items:,} items: too many to examine",
            where="privacy.b",
            remedy=remedy,
        ) from None
    released = holders.matrix()
    budget = int(params.max_growth * released.nnz)
    lacking = deficient_sets(ratings.by_user.whole(), released, size, params.l)
    additions = top_up_sets(released, lacking, params.l, spread, budget)
    if not additions.complete:
        raise Refused(
            f"{promise} cannot be reached at a bearable cost: {len(lacking):,} sets of {size} items lie in fewer than "
            f"{params.l} groups, and mending them would add more than {budget:,} cells "
            f"({params.max_growth:.0%} of the {released.nnz:,} released)",
            where="privacy.b, privacy.max_growth",
            remedy=remedy,
        )
    return additions


def _add_block(
    block: tuple[int, int, Path], *, source: Path, padding: Path, work: Path, params: Params
) -> int:
    """Copy a row group of profiles with its missing cells: the members' mean prediction, never an observed rating."""
    number, first, path = block
    some = profiles.read_row_group(source, number, code_type(params.scale, params.rating_step))
    indptr = np.asarray(np.load(work / "indptr.npy", mmap_mode="r")[first : first + len(some.sizes) + 1])
    item = np.asarray(np.load(work / "items.npy", mmap_mode="r")[indptr[0] : indptr[-1]])
    group = np.repeat(np.arange(len(some.sizes)), np.diff(indptr))
    model = open_model(padding)
    means = np.load(work / "means.npy", mmap_mode="r")[first : first + len(some.sizes)]
    predicted = LowRank(np.asarray(means), np.asarray(model.items), model.mean).cells(group, item)
    codes = encode(predicted, params.scale, params.rating_step)
    released = add_cells(some.matrix(some.codes, len(model.items)), group, item, codes)
    profiles.write_sparse(path, first, some.sizes, released)
    return released.nnz
