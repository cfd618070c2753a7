"""Diversity: top up items (and sets of items) until enough groups hold them ([Chang2009], section 5.1).

Enough means: at least l groups, so that an item alone identifies no user's group, and so many that the members of a
group that holds an item are hardly more likely to have rated it than if users rated independently.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.factors import open_model
from tasks.data.mean_predictions import mean_predictions
from tasks.data.ratings import Ratings
from tasks.errors import Refused
from tasks.kernels.group_profiles import add_cells
from tasks.kernels.item_diversity import (
    Additions,
    Holders,
    TooManySets,
    VarianceOfItems,
    draw_decoys,
    find_deficient_sets,
    require_examinable,
    top_up_items,
    top_up_sets,
)
from tasks.kernels.padded import LowRank, code_type, encode
from tasks.pipeline import Job
from tasks.store import link, remove

RESULT = "profiles"
# The gate allows 0.015 above what independent ratings would show (docs/leaks-and-bars.md); keep a distance from it.
LINK_MARGIN = 0.008


class Params(Settings):
    """Hold the promise, the number of cells that may be added for it, and the form of published ratings."""

    l: int  # noqa: E741
    b: int
    max_growth: float
    clip_groups: float
    scale: tuple[float, float]
    rating_step: float


@dataclass(frozen=True)
class Inputs:
    """Hold the directories this step reads."""

    ratings: Path
    factors: Path
    groups: Path
    profiles: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(
        **config.privacy.model_dump(include={"l", "b", "max_growth", "clip_groups", "rating_step"}),
        scale=config.source.scale,
    )


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Copy profiles that all hold every item; top up any others."""
    source, target = job.inputs.profiles / "groups.parquet", job.out / "groups.parquet"
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
    stages = 2 * (1 + len(parts))  # finding the missing cells takes about as long as adding them
    [before] = job.engine.map(
        _find_additions,
        [job.rng("decoys")],
        source=source,
        work=work,
        inputs=job.inputs,
        params=job.params,
    )
    job.progress(len(parts), stages)
    cells = job.engine.map(
        _add_block,
        list(zip(range(len(parts)), firsts, parts, strict=True)),
        progress=lambda done, total: job.progress(total + done, stages),
        source=source,
        factors=job.inputs.factors,
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
    inputs: Inputs,
    params: Params,
) -> int:
    """Write the missing cells by group and the groups' mean predictions to `work`; return the number of cells."""
    sizes = profiles.read_sizes(source)
    kind = code_type(params.scale, params.rating_step)
    ratings = Ratings(inputs.ratings)
    labels = np.load(inputs.groups / "labels.npy")
    model = open_model(inputs.factors)

    def held() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return (
            (block.items, block.lengths) for block in profiles.blocks(source, kind) if block.items is not None
        )

    def spread(items: np.ndarray) -> np.ndarray:
        return model.group_variances(labels, len(sizes), items)

    released = Holders.collect(held, ratings.n_items)
    found = [top_up_items(released, params.l, spread)]
    holders = released.with_additions(found[0])
    found.append(draw_decoys(holders, ratings.by_item.counts(), sizes, LINK_MARGIN, rng))
    for size in range(2, params.b + 1):
        holders = holders.with_additions(found[-1])
        found.append(_top_up_sets(ratings, holders, size, spread, params))
    group, item = (np.concatenate([getattr(some, side) for some in found]) for side in ("group", "item"))
    shape = (len(sizes), ratings.n_items)
    by_group = sp.coo_array((np.ones(len(group), np.int8), (group, item)), shape=shape).tocsr()
    np.save(work / "indptr.npy", by_group.indptr.astype(np.int64))
    np.save(work / "items.npy", by_group.indices.astype(np.int32))
    means = mean_predictions(inputs.factors, inputs.groups / "labels.npy", params.clip_groups)
    np.save(work / "means.npy", means.users)
    return len(released.groups)


def _top_up_sets(
    ratings: Ratings, holders: Holders, size: int, spread: VarianceOfItems, params: Params
) -> Additions:
    """Return cells that bring every set of `size` items a user rated into l groups; refuse where they are too many."""
    promise = f"({size},{params.l})-diversity"
    remedy = (
        "lower privacy.b or privacy.l, raise privacy.k, or use predictive-padded: its groups hold every item"
    )
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
    lacking = find_deficient_sets(ratings.by_user.whole(), released, size, params.l)
    additions = top_up_sets(released, lacking, params.l, spread, budget)
    if not additions.complete:
        raise Refused(
            f"{promise} cannot be reached at an acceptable cost: {len(lacking):,} sets of {size} items are in fewer "
            f"than {params.l} groups, and topping them up would add more than {budget:,} cells "
            f"({params.max_growth:.0%} of the {released.nnz:,} released)",
            where="privacy.b, privacy.max_growth",
            remedy=remedy,
        )
    return additions


def _add_block(
    block: tuple[int, int, Path], *, source: Path, factors: Path, work: Path, params: Params
) -> int:
    """Copy a row group of profiles with its missing cells added: mean predictions, never an observed rating."""
    number, first, path = block
    some = profiles.read_row_group(source, number, code_type(params.scale, params.rating_step))
    indptr = np.asarray(np.load(work / "indptr.npy", mmap_mode="r")[first : first + len(some.sizes) + 1])
    item = np.asarray(np.load(work / "items.npy", mmap_mode="r")[indptr[0] : indptr[-1]])
    group = np.repeat(np.arange(len(some.sizes)), np.diff(indptr))
    model = open_model(factors)
    means = np.load(work / "means.npy", mmap_mode="r")[first : first + len(some.sizes)]
    predicted = LowRank(np.asarray(means), np.asarray(model.items), model.mean).cells(group, item)
    codes = encode(predicted, params.scale, params.rating_step)
    released = add_cells(some.matrix(some.codes, len(model.items)), group, item, codes)
    profiles.write_sparse(path, first, some.sizes, released)
    return released.nnz
