"""Obfuscation: made-up ratings are mixed in, so that what people rated does not tell who they are (paper 004).

Which items are added to whom is the strategy's choice (tasks/obfuscators): items that speak for another group than the
person's own. People of whom the source does not know the attribute get what the inferrer takes them for. A made-up
rating is rounded to one of the two levels around it, up or down by chance, so that none stands out by its value.
Chance belongs to a person and an item and is keyed with the owner's secret; additions that were drawn anew in every
snapshot could be told by not being in the next. It does not depend on the settings: of two releases about the same
people the smaller share is not another draw.

    users/items/attributes.parquet by_user/ by_item/    as ingest's, additions among them (without timestamps: a made-up
                                                        rating has none, and no step that follows looks at them)
    added/              which of them are made up: what must not show fewer than so many real ratings counts these
    added.parquet       user (row) · item (column) · rating: the same for the owner. Private, as is everything here
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks import obfuscators
from tasks.config import Obfuscation, ReleaseConfig
from tasks.config.base import Settings
from tasks.errors import UsageError
from tasks.kernels import inferrer
from tasks.kernels.additions import together
from tasks.kernels.rating_levels import common_levels, on_levels
from tasks.obfuscators import Chance, Wanted
from tasks.pipeline import Job
from tasks.ratings import Ratings, Side, class_numbers, write_added, write_attributes, write_ids, write_matrix

MISSED = (
    0.001  # of the ratings: how far the additions may be below what was asked for (SCIENCE P4: 0.1 points)
)


class Params(Settings):
    """What is hidden and how, of whom, and on which scale."""

    obfuscation: Obfuscation
    population: str
    scale: tuple[float, float]


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(obfuscation=config.obfuscation, population=config.population, scale=config.source.scale)


def run(job: Job) -> dict[str, Any]:
    """Add what the strategy chooses to the ratings; what people really rated stays as it is."""
    ratings = Ratings(job.ratings)
    chosen: Obfuscation = job.params.obfuscation
    rated = ratings.by_user.whole()
    labels, classes, guessed = _labels(ratings, rated, chosen.attribute or "")
    chance = _chance(job, ratings)
    job.progress(1, 4)
    picked = chosen.model_dump(include={"share", "similarity", "threshold", "top", "rating"})
    wanted = Wanted(classes=classes, scale=job.params.scale, chance=chance, **picked)
    added = _strategy(chosen.strategy).add(rated, labels, wanted)
    asked = added.nnz if wanted.share is None else wanted.total(rated)
    _refuse_too_few(job, added.nnz, asked, rated.nnz)
    job.progress(2, 4)
    row, item = np.repeat(np.arange(added.shape[0]), np.diff(added.indptr)), added.indices
    values = on_levels(added.data, _levels(ratings.by_user), chance("rating", row, item))
    added = sp.csr_array((values, item, added.indptr), shape=added.shape)
    whole = together(rated, added)
    if not whole.has_canonical_format:
        raise AssertionError("the strategy added what was rated already")
    columns = {
        "user": pa.array(row, pa.int32()),
        "item": pa.array(item, pa.int32()),
        "rating": pa.array(values, pa.float32()),
    }
    pq.write_table(pa.table(columns), job.out / "added.parquet", compression="zstd")
    _write(job, ratings, whole)
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
    return obfuscators.strategy(name)


def _labels(ratings: Ratings, rated: sp.csr_array, attribute: str) -> tuple[np.ndarray, int, int]:
    """Everybody's class, the number of classes, and of how many people it had to be guessed."""
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
        told = np.flatnonzero(labels >= 0)
        labels[unknown] = inferrer.fit(rated[told], labels[told], classes).guess(rated[unknown])
    return labels, classes, len(unknown)


def _chance(job: Job, ratings: Ratings) -> Chance:
    """Numbers that belong to a person, an item and a purpose; whoever lacks the secret cannot draw them again."""
    key = job.run.key.noise(job.run.purpose, job.params.population, "obfuscation")
    people = key.tokens("people", (_encoded(name) for name in ratings.user_ids().to_pylist()))
    # The last one has no name: it stands where chance belongs to a person alone (column −1).
    items = key.tokens("items", (_encoded(name) for name in (*ratings.item_ids(), "")))
    return lambda purpose, rows, columns: key.uniforms(purpose, people[rows], items[columns])


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _refuse_too_few(job: Job, added: int, asked: int, rated: int) -> None:
    """A release that hides less than it was told to must not look as if it did. Its shadow takes what there is."""
    if job.run.purpose == "release" and asked - added > MISSED * rated:
        raise UsageError(
            f"only {added / rated:.2%} made-up ratings can be added, not {asked / rated:.2%}: there are no more items "
            "to choose from",
            where="obfuscation.share",
            remedy="lower it, raise obfuscation.top, or lower obfuscation.threshold (with strategy 'rfpp')",
        )


def _levels(side: Side) -> np.ndarray:
    """The levels on which people give ratings."""
    values, counts = np.zeros(0, np.float32), np.zeros(0, np.int64)
    for start, stop in side.blocks():
        own, many = np.unique(side.values[side.indptr[start] : side.indptr[stop]], return_counts=True)
        values, place = np.unique(np.concatenate([values, own]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, many])).astype(np.int64)
    return common_levels(values, counts)


def _write(job: Job, ratings: Ratings, whole: sp.csr_array) -> None:
    """A directory of ratings like ingest's."""
    write_ids(job.out, "user", ratings.user_ids())
    write_ids(job.out, "item", ratings.item_ids())
    write_attributes(job.out, dict(ratings.attributes()))
    write_matrix(job.out, whole)
