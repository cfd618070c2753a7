"""Evaluate: what the release is still good for, by a shadow run of the same steps on 90 % of the ratings.

The other 10 % are set aside before anything is fitted (paper section 7; SCIENCE P0, "Utility"): everything some
people rated, and single ratings of the rest. Predictions and ranks are scored by checks/utility. The shadow's own
release is kept for the judge: the people it was made without are the only ones an attack must not find (SCIENCE
P2, "baseline"). Nothing of the shadow run is published.

A group's profile answers for its members cell by cell. A single person's record does not: what was held out is not in
it, or is noise there. So for methods that publish single people `target` is what a recommender trained on the
released records predicts for the own record, `similar` for the record nearest to the person (tasks/learnt.py), and
`random_group` what the model, not released, predicts for somebody else.

Where a step changes the ratings first, the shadow's ratings are changed as the release's are, and what the release lost
by it counts: `original` and what is held out are of the ratings as ingested. Items and people that were left out of the
release are left out of its shadow; there `target` and `similar` are null.

    heldout.parquet ranks.parquet summary.json      utility
    shadow-release/   as published, and membership.parquet (group −1: absent), held_out.parquet (pseudonym, item)
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks import methods, profiles
from tasks.candidate import Candidate, pseudonyms, write_release
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.metrics import distances
from tasks.kernels.padded import LowRank
from tasks.kernels.profile_distances import profile_distances
from tasks.learnt import OwnScales, learn, own_scales
from tasks.pipeline import Job, execute
from tasks.ratings import Ratings, places, write_attributes, write_ids, write_matrix
from tasks.shadow import Listed, begins_with, original_model
from tasks.steps.padding import open_model
from tasks.store import remove, write_json

HELD_OUT_SHARE = 0.1
MOST_USERS = 50_000  # beyond this a sample of users tells the same (the contract)
ABSENT_SHARE = 0.05  # of the people: about half of what is held out, the other half is for utility
MOST_ABSENT = 500
MOST_ABSENT_RATINGS = 0.075  # of all ratings; reached only where a few people gave most of them
FEWEST_USERS = 500  # with fewer, half of what is held out is too little to tell utility by: nobody is spared
# Users compared with every released profile: as many as this many cells allow, within these bounds. A share found on
# 1,000 is known to ±3 points (±1.5 where it is near 0 or 1), on 5,000 to ±1.4; summary.json says how many they were.
CELLS_RANKED = 100_000_000_000
FEWEST_RANKED, MOST_RANKED = 1_000, 5_000
USERS_PER_BLOCK = 256
CELLS_PER_BLOCK = 4_000_000  # of dense profiles and rows that lie in memory at once
RATINGS_PER_BLOCK = 1_000_000
HISTOGRAM_USERS = 1_000
EVERYBODY = (
    "study"  # purpose of a run that only measures utility: nobody is absent, a paper's plain 90/10 split
)


class Params(Settings):
    """A shadow run depends on whatever the release depends on."""

    privacy: dict[str, Any]
    padding: dict[str, Any]
    clustering: dict[str, Any]
    microaggregation: dict[str, Any]
    perturbation: dict[str, Any]
    obfuscation: dict[str, Any]
    suppression: dict[str, Any]
    scale: tuple[float, float]


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    tables = {name: getattr(config, name).model_dump() for name in Params.model_fields if name != "scale"}
    return Params(**tables, scale=config.source.scale)


@dataclass(frozen=True)
class Split:
    """Who is in the shadow run and who is absent (rows of the ingested ratings); the ratings held out of those who
    are in it, as (row in `present`, item, rating)."""

    present: np.ndarray
    absent: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray]


def run(job: Job) -> dict[str, Any]:
    """Split, run the method on the larger part, and ask the result for the smaller."""
    split = _split(job)
    shadow_ingest = job.out / "shadow" / "ingest"
    shadow = job.run.shadow(job.out / "shadow", begins_with(job, shadow_ingest))
    steps = methods.data_steps(job.config)
    made = {name: Path(execute(name, shadow)["path"]) for name in (*steps, "padding")}
    made["original"] = original_model(replace(job, run=shadow), shadow_ingest, made["padding"])
    release = made[next(reversed(steps))] / "groups.parquet"

    low, high = job.config.source.scale
    model = open_model(made["original"])
    labels = np.load(made["clustering"] / "labels.npy")
    user, item, truth = split.held_out
    changed = made[methods.change(job.config) or "ingest"]
    listed = Listed.among(Ratings(shadow_ingest), Ratings(changed), labels)
    coding = profiles.Coding.of(job.config)
    unpacked = job.out / "shadow" / "profiles"
    profiles.unpack(release, unpacked, coding.dtype)
    scales = own_scales(Ratings(shadow_ingest), coding, profiles.is_dense(release))
    nearest, ranks = _rank_profiles(job, made, unpacked, listed, scales)
    records, place = (listed.record, nearest), listed.item[item]
    by_chance = job.rng("random groups").permutation(listed.record)
    if methods.method(job.config).SINGLE:
        learnt = learn(
            replace(job, inputs={"ingest": changed}), unpacked, coding, job.out / "shadow" / "learnt"
        )
        target, similar = (
            _learnt(learnt, job.config, scales, user, record[user], place) for record in records
        )
        # A group is a person: by chance, somebody. Who is left out of the release is somebody, too.
        somebody = job.rng("somebody").permutation(len(by_chance))
        random_group = model.cells(np.where(by_chance < 0, somebody, by_chance)[user], item)
    else:
        released = profiles.open_unpacked(unpacked, coding.dtype)
        target, similar = (_released(released, coding, record[user], place) for record in records)
        random_group = model.group_means(by_chance, int(labels.max()) + 1).cells(by_chance[user], item)
    columns = {
        "truth": truth,
        "original": np.clip(model.cells(user, item), low, high),
        "target": target,
        "similar": similar,
        "random_group": np.clip(random_group, low, high),
        "item_mean": _item_means(Ratings(shadow_ingest))[item],
    }
    arrays = {name: pa.array(values.astype(np.float32), from_pandas=True) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), job.out / "heldout.parquet")
    pq.write_table(
        pa.table(
            {
                "self_rank": pa.array(ranks, pa.int32()),
                "groups": pa.array(np.full(len(ranks), labels.max() + 1), pa.int32()),
            }
        ),
        job.out / "ranks.parquet",
    )
    _keep_release(replace(job, run=shadow), changed, release, listed, split)
    facts = _facts(job, model, labels, len(truth), len(ranks))
    write_json(job.out / "summary.json", facts | {"absent_users": len(split.absent)})
    remove(job.out / "shadow")
    counts = {"users": len(split.present), "absent": len(split.absent)}
    return {"held_out": len(truth), **counts, "ranked": len(ranks)}


def _split(job: Job) -> Split:
    """Draw who and what is held out, and write the shadow run's ratings."""
    ratings = Ratings(job.inputs["ingest"])
    present, absent, share = _people(job, ratings.by_user.counts())
    counts = ratings.by_user.counts()[present]
    block = np.cumsum(counts) // RATINGS_PER_BLOCK
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(present)]
    rng = job.rng("held out")
    kept, held_out = [], []
    for start, stop in pairwise(edges):
        some = ratings.by_user.take(present[start:stop])
        aside = rng.random(some.nnz) < share
        row = np.repeat(np.arange(start, stop), np.diff(some.indptr))
        kept.append(
            (
                np.bincount(row[~aside] - start, minlength=stop - start),
                some.indices[~aside],
                some.data[~aside],
            )
        )
        held_out.append((row[aside], some.indices[aside], some.data[aside]))
    lengths, indices, values = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    directory = job.out / "shadow" / "ingest"
    directory.mkdir(parents=True)
    names = [str(number) for number in range(len(present))]  # the source ids are not needed here
    write_ids(directory, "user", names)
    write_ids(directory, "item", ratings.item_ids())
    known = {name: values.take(pa.array(present)) for name, values in ratings.attributes().items()}
    if known:
        write_attributes(directory, known)
    shape = (len(present), ratings.n_items)
    write_matrix(
        directory, sp.csr_array((values, indices, np.concatenate([[0], np.cumsum(lengths)])), shape=shape)
    )
    user, item, rating = (np.concatenate(parts) for parts in zip(*held_out, strict=True))
    return Split(present, absent, (user, item, rating))


def _people(job: Job, rated: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Who is in the shadow run, who is absent, and the share of the former's ratings to hold out."""
    users, privacy = len(rated), job.config.privacy
    if users > MOST_USERS:  # those outside the sample are absent anyway
        order = job.rng("users").permutation(users)
        present, absent = order[:MOST_USERS], order[MOST_USERS : MOST_USERS + MOST_ABSENT]
        return np.sort(present), np.sort(absent), HELD_OUT_SHARE
    most = min(int(ABSENT_SHARE * users), MOST_ABSENT)
    too_few = (
        users < FEWEST_USERS or users - most < 2 * privacy.k * privacy.l
    )  # the rest must form its groups
    if too_few or job.run.purpose == EVERYBODY:
        return np.arange(users), np.empty(0, np.int64), HELD_OUT_SHARE
    total = int(rated.sum())
    chosen = job.rng("absent").choice(users, most, replace=False)
    chosen = chosen[np.argsort(rated[chosen], kind="stable")]  # were they too many, the heaviest would stay
    absent = np.sort(chosen[np.cumsum(rated[chosen]) <= MOST_ABSENT_RATINGS * total])
    gone = int(rated[absent].sum())
    present = np.delete(np.arange(users), absent)
    return present, absent, (HELD_OUT_SHARE * total - gone) / (total - gone)


def _keep_release(job: Job, changed: Path, groups: Path, listed: Listed, split: Split) -> None:
    """Leave the shadow's release to the judge, with who is in it, who is not, and what of theirs was held out; all of
    them, and of it, in the release as well."""
    everybody = np.concatenate([split.present, split.absent])
    ids = Ratings(job.inputs["ingest"]).user_ids().take(pa.array(everybody))
    names = pseudonyms(job, ids)
    labels = np.concatenate([listed.record, np.full(len(split.absent), -1)])
    released = places(ids, Ratings(job.ratings).user_ids()) >= 0
    place, some = job.out / "shadow-release", pa.array(released)
    inside = replace(job, inputs={"ingest": changed})
    write_release(
        inside, Candidate(place, place), groups, ids.filter(some), names.filter(some), labels[released]
    )
    user, item, _ = split.held_out
    user, item = user[listed.item[item] >= 0], listed.item[item][listed.item[item] >= 0]
    pseudonym = pa.DictionaryArray.from_arrays(pa.array(user, pa.int32()), names)
    held_out = pa.table({"pseudonym": pseudonym.cast(pa.string()), "item": pa.array(item, pa.int32())})
    pq.write_table(held_out, place / "held_out.parquet", compression="zstd")


def _rank_profiles(
    job: Job, made: dict[str, Path], unpacked: Path, listed: Listed, scales: OwnScales
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest released profile of each user (-1: not asked), and the rank of the user's own (paper section 7.4)."""
    users = np.flatnonzero(listed.record >= 0)
    affordable = CELLS_RANKED // (
        int(listed.record.max() + 1) * Ratings(job.out / "shadow" / "ingest").n_items
    )
    most = min(max(affordable, FEWEST_RANKED), MOST_RANKED)
    if len(users) > most:
        users = np.sort(job.rng("ranked").choice(users, most, replace=False))
    pieces = [users[start : start + USERS_PER_BLOCK] for start in range(0, len(users), USERS_PER_BLOCK)]
    blocks = [(piece, listed.record[piece], scales.take(piece)) for piece in pieces]
    job.progress(0, len(blocks))  # the shadow run's time says nothing about the time these take
    parts = job.engine.map(
        _rank_block,
        blocks,
        progress=job.progress,
        ingest=job.out / "shadow" / "ingest",
        padding=made["original"],
        unpacked=unpacked,
        columns=listed.columns,
        config=job.config,
    )
    nearest = np.full(len(listed.record), -1, np.int64)
    nearest[users] = np.concatenate([found for found, _ in parts])
    return nearest, np.concatenate([rank for _, rank in parts])


def _rank_block(
    block: tuple[np.ndarray, np.ndarray, OwnScales],
    *,
    ingest: Path,
    padding: Path,
    unpacked: Path,
    columns: np.ndarray | None,
    config: ReleaseConfig,
) -> tuple[np.ndarray, np.ndarray]:
    users, own, scales = block
    padded = open_model(padding).padded_rows(users, Ratings(ingest).by_user.take(users))
    if columns is not None:
        padded = padded[:, columns]
    rows, unit = scales.comparable(padded), np.float32(scales.typical)
    low, high = config.source.scale
    measure: dict[str, Any] = {"metric": config.clustering.metric, "max_diff": high - low}
    coding = profiles.Coding.of(config)
    apart = np.empty((len(users), len(profiles.open_unpacked(unpacked, coding.dtype).sizes)), np.float32)
    width = max(1, CELLS_PER_BLOCK // rows.shape[1])
    for start in range(0, apart.shape[1], width):
        # Opened anew: what was read of a mapping counts as this process' memory until the mapping is gone.
        some = profiles.open_unpacked(unpacked, coding.dtype).rows(start, min(start + width, apart.shape[1]))
        values = coding.values(some.codes) * unit
        if some.items is None:
            found = distances(rows, values.reshape(-1, rows.shape[1]), **measure)
        else:
            found = profile_distances(rows, some.matrix(values, rows.shape[1]), **measure)
        apart[:, start : start + width] = found
    rank = 1 + (apart < apart[np.arange(len(users)), own][:, None]).sum(axis=1)
    return apart.argmin(axis=1), rank


def _released(
    released: profiles.Profiles, coding: profiles.Coding, group: np.ndarray, item: np.ndarray
) -> np.ndarray:
    """Released ratings of (group, item) cells; NaN where the group does not hold the item, or one of them is -1."""
    asked = (group >= 0) & (item >= 0)
    codes = np.full(len(group), np.nan)
    codes[asked] = released.cells(group[asked], item[asked])
    return coding.values(codes)


def _learnt(
    model: LowRank,
    config: ReleaseConfig,
    scales: OwnScales,
    user: np.ndarray,
    record: np.ndarray,
    item: np.ndarray,
) -> np.ndarray:
    """What the released records taught about (record, item) cells, as ratings of these people; NaN where one is -1."""
    asked = (record >= 0) & (item >= 0)
    values = np.full(len(record), np.nan)
    values[asked] = scales.take(user[asked]).ratings(model.cells(record[asked], item[asked]))
    return np.clip(values, *config.source.scale)


def _item_means(ratings: Ratings) -> np.ndarray:
    """Mean rating of each item, the mean of all where nobody rated it: the plainest predictor."""
    side = ratings.by_item
    totals = [side.block(start, stop).sum(axis=1, dtype=np.float64) for start, stop in side.blocks()]
    total, count = np.concatenate(totals), side.counts()
    return np.where(count > 0, total / np.maximum(count, 1), total.sum() / max(count.sum(), 1))


def _facts(job: Job, model: LowRank, labels: np.ndarray, held_out: int, ranked: int) -> dict[str, Any]:
    """Histograms before and after padding (the paper's Table 2) and what the shadow run was made of."""
    ratings = Ratings(job.out / "shadow" / "ingest")
    users = ratings.n_users
    people = Ratings(job.inputs["ingest"]).n_users
    low, high = job.config.source.scale
    edges = histogram_edges(low, high)
    some = np.sort(job.rng("histogram").choice(users, min(users, HISTOGRAM_USERS), replace=False))
    after = np.zeros(len(edges) - 1, np.int64)
    for block in np.array_split(some, -(-len(some) * ratings.n_items // CELLS_PER_BLOCK)):
        padded = model.padded_rows(block, ratings.by_user.take(block))
        after += np.histogram(np.clip(padded, low, high), edges)[0]
    observed = np.histogram(ratings.by_user.values, edges)[0]
    empty = users * ratings.n_items - len(ratings.by_user.values)
    return {
        "method": job.config.privacy.method,
        "users": users,
        "source_users": people,
        "sampled": people > MOST_USERS,
        "held_out": held_out,
        "ranked_users": ranked,
        "groups": int(labels.max()) + 1,
        "histogram": {
            "edges": edges.tolist(),
            "observed_share": (observed / (observed.sum() + empty)).tolist(),
            "null_share": empty / (observed.sum() + empty),
            "padded_share": (after / after.sum()).tolist(),
        },
    }


def histogram_edges(low: float, high: float) -> np.ndarray:
    """Bins around whole ratings where the scale is short, ten equal bins where it is long."""
    if high - low <= 10:
        between = np.arange(np.ceil(low), np.floor(high)) + 0.5
        return np.concatenate([[low], between, [high]])
    return np.linspace(low, high, 11)
