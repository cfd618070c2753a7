"""Obfuscation: add made-up ratings, so that an attribute cannot be inferred from what users rated ([RFPP]).

The strategy (tasks/obfuscators) chooses which items are added to which user: items that indicate another class than the
user's own. For users whose attribute the source does not know, the class is the one the inferrer predicts. A made-up
rating is rounded to one of the two levels around it, up or down by chance, so that its value does not distinguish it.
Chance belongs to a user and an item and is keyed with the owner's secret: additions drawn anew in every snapshot could
be detected because they are missing in the next. It does not depend on the settings: of two releases about the same
users, the smaller share is not another draw.

    users/items/attributes.parquet by_user/ by_item/    as ingest writes them, additions included (without timestamps:
                                                        a made-up rating has none, and no later step reads them)
    added/              which ratings are made up: later steps count real ratings only
    added.parquet       user (row) · item (column) · rating: the same for the owner. Private, as everything here
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks import obfuscators
from tasks.config import Obfuscation, ReleaseConfig
from tasks.config.base import Settings
from tasks.data.ratings import (
    Ratings,
    Side,
    class_numbers,
    write_added,
    write_attributes,
    write_ids,
    write_matrix,
)
from tasks.errors import UsageError
from tasks.kernels import inferrer
from tasks.kernels.factitious_ratings import merge_ratings
from tasks.kernels.rating_levels import common_levels, draw_levels
from tasks.obfuscators import Chance, Request
from tasks.pipeline import Job
from tasks.store import link

RESULT = "ratings"
# Of the cohort (tasks/series), for the steps that follow.
SERIES_FILES = ("strata.npy", "pools.npy", "prior.npz", "series.json")
# Share of the ratings by which the additions may miss the number asked for (docs/leaks-and-bars.md: 0.1 points).
MOST_MISSING_SHARE = 0.001


class Params(Settings):
    """Hold what is hidden and how, in which population, and on which scale."""

    obfuscation: Obfuscation
    population: str
    scale: tuple[float, float]


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    ratings: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(obfuscation=config.obfuscation, population=config.population, scale=config.source.scale)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Add the ratings that the strategy chooses; real ratings stay unchanged."""
    ratings = Ratings(job.inputs.ratings)
    chosen = job.params.obfuscation
    rated = ratings.by_user.whole()
    labels, classes, guessed = _labels(ratings, rated, chosen.attribute or "")
    chance = _chance(job, ratings)
    job.progress(1, 4)
    picked = chosen.model_dump(include={"share", "similarity", "threshold", "top", "rating"})
    wanted = Request(classes=classes, scale=job.params.scale, chance=chance, **picked)
    added = _strategy(chosen.strategy).add(rated, labels, wanted)
    asked = added.nnz if wanted.share is None else wanted.total(rated)
    _refuse_too_few(job, added.nnz, asked, rated.nnz)
    job.progress(2, 4)
    row, item = np.repeat(np.arange(added.shape[0]), np.diff(added.indptr)), added.indices
    values = draw_levels(added.data, _levels(ratings.by_user), chance("rating", row, item))
    added = sp.csr_array((values, item, added.indptr), shape=added.shape)
    whole = merge_ratings(rated, added)
    if not whole.has_canonical_format:
        raise AssertionError("the strategy added ratings of items that the user rated already")
    columns = {
        "user": pa.array(row, pa.int32()),
        "item": pa.array(item, pa.int32()),
        "rating": pa.array(values, pa.float32()),
    }
    pq.write_table(pa.table(columns), job.out / "added.parquet", compression="zstd")
    _write(job.out, ratings, whole)
    write_added(job.out, added)
    job.progress(3, 4)
    counts = {"added": int(added.nnz), "asked": int(asked), "source_ratings": int(rated.nnz)}
    return {"classes": classes, "guessed": guessed, **counts}


def _strategy(name: str) -> obfuscators.Strategy:
    if name not in obfuscators.registered():
        raise UsageError(
            f"obfuscation.strategy: '{name}' is not available in this version",
            where="obfuscation.strategy",
            remedy=f"use one of: {', '.join(obfuscators.registered())}",
        )
    return obfuscators.load_strategy(name)


def _labels(ratings: Ratings, rated: sp.csr_array, attribute: str) -> tuple[np.ndarray, int, int]:
    """Return every user's class, the number of classes, and for how many users it was predicted."""
    known = ratings.attributes()[attribute]
    labels, classes = class_numbers(known), len(known.dictionary)
    if classes < 2:
        raise UsageError(
            f"the users with ratings do not differ in '{attribute}': there is nothing to hide",
            where="obfuscation.attribute",
            remedy="check that the user table has the same user ids as the ratings, or name another attribute",
        )
    unknown = np.flatnonzero(labels < 0)
    if len(unknown):
        known_rows = np.flatnonzero(labels >= 0)
        labels[unknown] = inferrer.fit(rated[known_rows], labels[known_rows], classes).guess(rated[unknown])
    return labels, classes, len(unknown)


def _chance(job: Job[Params, Inputs], ratings: Ratings) -> Chance:
    """Return numbers that belong to a user, an item and a purpose; they cannot be repeated without the secret."""
    key = job.noise(job.params.population, "obfuscation")
    people = key.tokens("people", (_encoded(name) for name in ratings.user_ids().to_pylist()))
    # The last one has no name: column −1, used where chance belongs to a user alone.
    items = key.tokens("items", (_encoded(name) for name in (*ratings.item_ids(), "")))
    return lambda purpose, rows, columns: key.uniforms(purpose, people[rows], items[columns])


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _refuse_too_few(job: Job[Params, Inputs], added: int, asked: int, rated: int) -> None:
    """Refuse a release with fewer additions than asked for; a shadow run takes what there is."""
    if job.purpose == "release" and asked - added > MOST_MISSING_SHARE * rated:
        raise UsageError(
            f"only {added / rated:.2%} made-up ratings can be added, not {asked / rated:.2%}: there are no more items "
            "to choose from",
            where="obfuscation.share",
            remedy="lower it, raise obfuscation.top, or lower obfuscation.threshold (with strategy 'rfpp')",
        )


def _levels(side: Side) -> np.ndarray:
    """Return the levels on which users give ratings."""
    values, counts = np.zeros(0, np.float32), np.zeros(0, np.int64)
    for start, stop in side.blocks():
        own, many = np.unique(side.values[side.indptr[start] : side.indptr[stop]], return_counts=True)
        values, place = np.unique(np.concatenate([values, own]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, many])).astype(np.int64)
    return common_levels(values, counts)


def _write(out: Path, ratings: Ratings, whole: sp.csr_array) -> None:
    """Write a directory of ratings like ingest's."""
    write_ids(out, "user", ratings.user_ids())
    write_ids(out, "item", ratings.item_ids())
    write_attributes(out, dict(ratings.attributes()))
    write_matrix(out, whole)
    for name in SERIES_FILES:
        if (ratings.directory / name).exists():
            link(ratings.directory / name, out / name)
