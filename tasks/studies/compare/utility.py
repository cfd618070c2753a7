"""Measure how well recommenders that are trained on a release predict real ratings that were held out of it.

The release is that of the shadow run (tasks/steps/evaluate.py), made from 90 % of the ratings; the test set is the
held-out ratings of the people in it. A person's history is the profile of their group. Profiles are weighted with
their number of people and never expanded. z-scores become ratings with the person's own mean and standard deviation
over the 90 %, as the users in [Zhang2006] do with the answers they get.

Ratings: RMSE and MAE over all held-out ratings, predictions clipped to the scale. Lists of ten: a held-out rating is
relevant from three quarters of the scale on (4 of 1 to 5); candidates are all items but those the person rated in the
90 %; the mean of nDCG@10 and Recall@10 is over people with at least one relevant held-out rating.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.ratings import Ratings, places
from tasks.engine import Engine
from tasks.kernels.ranking import hits, kendall_tau, ndcg, recall, top_items
from tasks.kernels.rating_noise import moments
from tasks.progress import StepProgress
from tasks.recommenders import Train, compared
from tasks.store import read_json

LENGTH = 10
RELEVANT_FROM = 0.75
PEOPLE_AT_ONCE = 1024
CODES: dict[str, np.dtype] = {"uint8": np.dtype("u1"), "uint16": np.dtype("<u2"), "float32": np.dtype("<f4")}


@dataclass(frozen=True)
class Held:
    """Hold the people of a shadow run: what they rated in the 90 % (`known`), and what was held out."""

    known: sp.csr_array
    person: np.ndarray
    item: np.ndarray
    truth: np.ndarray
    groups: np.ndarray  # of each person in the release

    def scales(self, every_item: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return each person's mean and standard deviation as z-scores are made with: over what they rated, or over
        every item, those not rated being filled with the mean ([Zhang2006], section 3)."""
        return moments(self.known, self.known.shape[1] if every_item else None)


def read_held(release: Path, ingest: Path) -> Held:
    """Find the people of a shadow release, and their held-out ratings, among the ratings it was made from; of the
    items only those that are released."""
    ratings = Ratings(ingest)
    items = pq.read_table(release / "items.parquet").column("item").combine_chunks()
    columns = places(items, pa.array(ratings.item_ids(), pa.string()))
    membership = pq.read_table(release / "membership.parquet").combine_chunks()
    row = pc.index_in(membership.column("user"), value_set=ratings.user_ids()).to_numpy()
    listed = membership.column("group").to_numpy() >= 0
    people = np.sort(row[listed])
    groups = np.empty(len(people), np.int64)
    groups[np.searchsorted(people, row[listed])] = membership.column("group").to_numpy()[listed]
    held_out = pq.read_table(release / "held_out.parquet").combine_chunks()
    names = membership.column("pseudonym").combine_chunks()
    asked = row[pc.index_in(held_out.column("pseudonym"), value_set=names).to_numpy()]
    there = np.isin(asked, people)  # people who rated only items that were left out have no record
    person, item = (
        np.searchsorted(people, asked[there]),
        held_out.column("item").to_numpy().astype(np.int64)[there],
    )
    rated = ratings.by_user.take(people)
    if len(columns) < rated.shape[1]:
        rated = sp.csr_array(rated[:, columns])
        rated.sort_indices()
    cell = np.repeat(np.arange(len(people)), np.diff(rated.indptr)) * rated.shape[1] + rated.indices
    wanted = person * rated.shape[1] + item
    aside = np.isin(cell, wanted)
    truth = np.asarray(rated.data[np.searchsorted(cell, wanted)], np.float64)
    counts = np.bincount(cell[~aside] // rated.shape[1], minlength=len(people))
    ends = np.concatenate([[0], np.cumsum(counts)])
    known = sp.csr_array((rated.data[~aside], rated.indices[~aside], ends), shape=rated.shape)
    return Held(known, person, item, truth, groups)


def read_profiles(release: Path) -> tuple[Train, np.ndarray, np.ndarray]:
    """Return a release's values, the number of people behind each row, and the group of each row."""
    manifest = read_json(release / "manifest.json")
    kind = CODES[manifest["rating_encoding"]]
    parts = list(profiles.blocks(release / "groups.parquet", kind))
    codes = np.concatenate([part.codes for part in parts]).astype(np.float32, copy=False)
    values = codes
    if kind.kind == "u":
        values = np.float32(manifest["rating_scale"][0]) + codes * np.float32(manifest["rating_step"])
    sizes, groups = (np.concatenate([getattr(part, name) for part in parts]) for name in ("sizes", "groups"))
    items = manifest["counts"]["items"]
    if all(part.items is None for part in parts):
        return values.reshape(len(sizes), items), sizes, groups
    ends = np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))])
    listed = [np.tile(np.arange(items), len(p.sizes)) if p.items is None else p.items for p in parts]
    return sp.csr_array((values, np.concatenate(listed), ends), shape=(len(sizes), items)), sizes, groups


def measure_release(
    release: Path,
    held: Held,
    scale: tuple[float, float],
    scratch: Path,
    engine: Engine,
    progress: StepProgress,
) -> dict[str, dict[str, float]]:
    """Train every recommender on a shadow release and return its figures, by recommender."""
    train, weights, groups = read_profiles(release)
    order = np.argsort(groups)
    row = order[np.searchsorted(groups, held.groups, sorter=order)]
    z_scores = read_json(release / "manifest.json")["unit"] == "z-score"
    return _measure(train, weights, row, held, scale, z_scores, scratch, engine, progress)


def measure_original(
    held: Held, scale: tuple[float, float], scratch: Path, engine: Engine, progress: StepProgress
) -> dict[str, dict[str, float]]:
    """Train every recommender on the 90 % themselves and return its figures, by recommender."""
    people = held.known.shape[0]
    return _measure(
        held.known,
        np.ones(people, np.int32),
        np.arange(people),
        held,
        scale,
        False,
        scratch,
        engine,
        progress,
    )


def _measure(
    train: Train,
    weights: np.ndarray,
    row: np.ndarray,
    held: Held,
    scale: tuple[float, float],
    z_scores: bool,
    scratch: Path,
    engine: Engine,
    progress: StepProgress,
) -> dict[str, dict[str, float]]:
    """Write all that a worker needs to `scratch`, and let each train one recommender at a time."""
    if isinstance(train, np.ndarray):
        np.save(scratch / "train.npy", train)
    else:
        sp.save_npz(scratch / "train.npz", train, compressed=False)
    sp.save_npz(scratch / "known.npz", held.known, compressed=False)
    shift, factor = np.zeros(len(row)), np.ones(len(row))
    if z_scores:
        shift, factor = held.scales(every_item=isinstance(train, np.ndarray))
    np.savez(
        scratch / "test.npz",
        weights=weights,
        row=row,
        person=held.person,
        item=held.item,
        truth=held.truth,
        shift=shift,
        factor=factor,
    )
    names = compared()
    try:
        found = engine.map(_train_and_test, names, progress=progress, scratch=scratch, scale=scale)
    finally:
        for name in ("train.npy", "train.npz", "known.npz", "test.npz"):
            (scratch / name).unlink(missing_ok=True)
    return dict(zip(names, found, strict=True))


def _train_and_test(name: str, *, scratch: Path, scale: tuple[float, float]) -> dict[str, float]:
    dense = scratch / "train.npy"
    train = np.load(dense, mmap_mode="r") if dense.exists() else sp.load_npz(scratch / "train.npz")
    test = dict(np.load(scratch / "test.npz"))
    known = sp.csr_array(sp.load_npz(scratch / "known.npz"))
    model = import_module(f"tasks.recommenders.{name}").fit(train, test["weights"])
    person, item, truth = test["person"], test["item"], test["truth"]
    guess = test["shift"][person] + test["factor"][person] * model.predict(test["row"][person], item)
    error = np.clip(guess, *scale) - truth

    relevant = truth >= scale[0] + RELEVANT_FROM * (scale[1] - scale[0])
    wanted = sp.csr_array(
        (np.ones(relevant.sum(), np.int8), (person[relevant], item[relevant])), shape=known.shape
    )
    many = np.diff(wanted.indptr)
    people = np.flatnonzero(many)
    hit = np.concatenate(
        [
            hits(top_items(model.rows(test["row"][some]), known[some], LENGTH), wanted[some])
            for some in np.array_split(people, -(-len(people) // PEOPLE_AT_ONCE) or 1)
        ]
    )
    nobody = np.zeros(1)  # has a relevant held-out rating
    found = {
        "rmse": np.sqrt(np.mean(error**2)),
        "mae": np.abs(error).mean(),
        "ndcg_at_10": np.mean(ndcg(hit, many[people]) if len(people) else nobody),
        "recall_at_10": np.mean(recall(hit, many[people]) if len(people) else nobody),
    }
    return {measure: round(float(value), 6) for measure, value in found.items()}


def summary(found: dict[str, dict[str, float]], original: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the best recommender's figures, for ratings and for lists, and how similar the order of the recommenders
    is to their order on the original."""
    rates = min(found, key=lambda name: found[name]["rmse"])
    ranks = max(found, key=lambda name: found[name]["ndcg_at_10"])
    by = {
        measure: np.array([[figures[name][measure] for name in found] for figures in (found, original)])
        for measure in ("ndcg_at_10", "rmse")
    }
    return {
        "rmse": found[rates]["rmse"],
        "mae": found[rates]["mae"],
        "best_at_ratings": rates,
        "ndcg_at_10": found[ranks]["ndcg_at_10"],
        "recall_at_10": found[ranks]["recall_at_10"],
        "best_at_lists": ranks,
        "kendall_tau": kendall_tau(*by["ndcg_at_10"]),
        "kendall_tau_rmse": kendall_tau(*by["rmse"]),
    }
