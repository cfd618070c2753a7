"""Evaluate: what the release is still good for, by a shadow run of the same steps on 90 % of the ratings.

The other 10 % are set aside before anything is fitted (paper section 7; SCIENCE P0, "Utility"): everything some
people rated, and single ratings of the rest. Predictions and ranks are scored by checks/utility. The shadow's own
release is kept for the judge: the people it was made without are the only ones an attack must not find (SCIENCE
P2, "baseline"). Nothing of the shadow run is published.

    heldout.parquet ranks.parquet summary.json      utility
    shadow-release/   as published, and membership.parquet (group −1: absent), held_out.parquet (pseudonym, item)
"""

from dataclasses import dataclass, replace
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
from tasks.kernels.padded import code_type
from tasks.kernels.profile_distances import profile_distances
from tasks.pipeline import Job, execute
from tasks.ratings import Ratings, write_ids, write_matrix
from tasks.similarity import padded_rows
from tasks.steps.padding import open_model
from tasks.store import digest_of, files_below, remove, write_json

HELD_OUT_SHARE = 0.1
MOST_USERS = 50_000  # beyond this a sample of users tells the same (the contract)
ABSENT_SHARE = 0.05  # of the people: about half of what is held out, the other half is for utility
MOST_ABSENT = 500
MOST_ABSENT_RATINGS = 0.075  # of all ratings; reached only where a few people gave most of them
FEWEST_USERS = 500  # with fewer, half of what is held out is too little to tell utility by: nobody is spared
MOST_RANKED = 5_000  # users compared with every released profile
USERS_PER_BLOCK = 256
EVERYBODY = (
    "study"  # purpose of a run that only measures utility: nobody is absent, a paper's plain 90/10 split
)


class Params(Settings):
    """A shadow run depends on whatever the release depends on."""

    privacy: dict[str, Any]
    padding: dict[str, Any]
    clustering: dict[str, Any]
    scale: tuple[float, float]


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    tables = {name: getattr(config, name).model_dump() for name in ("privacy", "padding", "clustering")}
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
    reference = {"path": str(shadow_ingest), "digest": digest_of(files_below(shadow_ingest)), "counts": {}}
    shadow = job.run.shadow(job.out / "shadow", reference)
    steps = methods.data_steps(job.config)
    made = {name: Path(execute(name, shadow)["path"]) for name in steps}
    release = made[next(reversed(steps))] / "groups.parquet"

    low, high = job.config.source.scale
    model = open_model(made["padding"])
    labels = np.load(made["clustering"] / "labels.npy")
    user, item, truth = split.held_out
    random_labels = job.rng("random groups").permutation(labels)
    random_means = model.group_means(random_labels, int(labels.max()) + 1)
    nearest, ranks, ranked = _rank_profiles(job, made, release, labels)
    columns = {
        "truth": truth,
        "original": np.clip(model.cells(user, item), low, high),
        "target": _released(release, job.config, labels[user], item, model.shape[1]),
        "similar": _released(release, job.config, nearest[user], item, model.shape[1]),
        "random_group": np.clip(random_means.cells(random_labels[user], item), low, high),
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
    _keep_release(replace(job, run=shadow), release, labels, split)
    facts = _facts(job, made, release, labels, len(truth), ranked)
    write_json(job.out / "summary.json", facts | {"absent_users": len(split.absent)})
    remove(job.out / "shadow")
    counts = {"users": len(split.present), "absent": len(split.absent)}
    return {"held_out": len(truth), **counts, "ranked": len(ranks)}


def _split(job: Job) -> Split:
    """Draw who and what is held out, and write the shadow run's ratings."""
    ratings = Ratings(job.inputs["ingest"])
    present, absent, share = _people(job, ratings.by_user.counts())
    matrix = ratings.by_user.take(present)
    aside = job.rng("held out").random(matrix.nnz) < share
    row = np.repeat(np.arange(len(present)), np.diff(matrix.indptr))
    kept = np.concatenate([[0], np.cumsum(~aside)])[matrix.indptr]
    directory = job.out / "shadow" / "ingest"
    directory.mkdir(parents=True)
    names = [str(number) for number in range(len(present))]  # the source ids are not needed here
    write_ids(directory, "user", names)
    write_ids(directory, "item", ratings.item_ids())
    write_matrix(
        directory, sp.csr_array((matrix.data[~aside], matrix.indices[~aside], kept), shape=matrix.shape)
    )
    return Split(present, absent, (row[aside], matrix.indices[aside], matrix.data[aside]))


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


def _keep_release(job: Job, groups: Path, labels: np.ndarray, split: Split) -> None:
    """Leave the shadow's release to the judge, with who is in it, who is not, and what of theirs was held out."""
    known = Ratings(job.inputs["ingest"]).user_ids()
    ids = [known[row] for row in np.concatenate([split.present, split.absent])]
    names = pseudonyms(job, ids)
    nowhere = np.full(len(split.absent), -1, labels.dtype)
    place = job.out / "shadow-release"
    write_release(job, Candidate(place, place), groups, ids, names, np.concatenate([labels, nowhere]))
    user, item, _ = split.held_out
    pseudonym = pa.DictionaryArray.from_arrays(pa.array(user, pa.int32()), pa.array(names, pa.string()))
    held_out = pa.table({"pseudonym": pseudonym.cast(pa.string()), "item": pa.array(item, pa.int32())})
    pq.write_table(held_out, place / "held_out.parquet", compression="zstd")


def _rank_profiles(
    job: Job, made: dict[str, Path], release: Path, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Nearest released profile of each user (-1: not asked), and the rank of the user's own (paper section 7.4)."""
    users = np.arange(len(labels))
    if len(users) > MOST_RANKED:
        users = np.sort(job.rng("ranked").choice(users, MOST_RANKED, replace=False))
    blocks = [users[start : start + USERS_PER_BLOCK] for start in range(0, len(users), USERS_PER_BLOCK)]
    parts = job.engine.map(
        _rank_block,
        blocks,
        progress=job.progress,
        ingest=job.out / "shadow" / "ingest",
        padding=made["padding"],
        clustering=made["clustering"],
        release=release,
        config=job.config,
    )
    nearest = np.full(len(labels), -1, np.int64)
    nearest[users] = np.concatenate([found for found, _ in parts])
    return nearest, np.concatenate([rank for _, rank in parts]), len(users)


def _rank_block(
    users: np.ndarray, *, ingest: Path, padding: Path, clustering: Path, release: Path, config: ReleaseConfig
) -> tuple[np.ndarray, np.ndarray]:
    rows = padded_rows(ingest, padding, users, keep_observed=True)
    low, high = config.source.scale
    metric, max_diff = config.clustering.metric, high - low
    kind = code_type(config.source.scale, config.privacy.rating_step)
    if profiles.is_dense(release):
        values = profiles.read_dense(release, kind) * np.float32(config.privacy.rating_step) + np.float32(low)
        apart = distances(rows, values, metric=metric, max_diff=max_diff)
    else:
        released = profiles.read_sparse(release, rows.shape[1], kind)
        released = sp.csr_array(
            (
                (released.data - 1) * np.float32(config.privacy.rating_step) + np.float32(low),
                released.indices,
                released.indptr,
            ),
            shape=released.shape,
        )
        apart = profile_distances(rows, released, metric=metric, max_diff=max_diff)
    own = np.asarray(np.load(clustering / "labels.npy", mmap_mode="r")[users])
    rank = 1 + (apart < apart[np.arange(len(users)), own][:, None]).sum(axis=1)
    return apart.argmin(axis=1), rank


def _released(
    release: Path, config: ReleaseConfig, group: np.ndarray, item: np.ndarray, n_items: int
) -> np.ndarray:
    """Released ratings of (group, item) cells; NaN where the group does not hold the item or is -1."""
    kind = code_type(config.source.scale, config.privacy.rating_step)
    asked = group >= 0
    codes = np.full(len(group), np.nan)
    if profiles.is_dense(release):
        codes[asked] = profiles.read_dense(release, kind)[group[asked], item[asked]]
    else:
        stored = profiles.read_sparse(release, n_items, kind)
        found = np.asarray(stored[group[asked], item[asked]], np.float64).ravel()
        codes[asked] = np.where(found > 0, found - 1, np.nan)
    return config.source.scale[0] + codes * config.privacy.rating_step


def _item_means(ratings: Ratings) -> np.ndarray:
    """Mean rating of each item, the mean of all where nobody rated it: the plainest predictor."""
    side = ratings.by_item
    row = np.repeat(np.arange(side.rows), side.counts())
    total = np.bincount(row, np.asarray(side.values, np.float64), side.rows)
    overall = float(np.mean(side.values, dtype=np.float64))
    return np.where(side.counts() > 0, total / np.maximum(side.counts(), 1), overall)


def _facts(
    job: Job, made: dict[str, Path], release: Path, labels: np.ndarray, held_out: int, ranked: int
) -> dict[str, Any]:
    """Histograms before and after padding (the paper's Table 2) and what the shadow run was made of."""
    ratings = Ratings(job.out / "shadow" / "ingest")
    users = ratings.n_users
    low, high = job.config.source.scale
    edges = histogram_edges(low, high)
    model = open_model(made["padding"])
    some = job.rng("histogram").choice(users, min(users, 1000), replace=False)
    padded = model.padded_rows(np.sort(some), ratings.by_user.take(np.sort(some)))
    observed = np.histogram(ratings.by_user.values, edges)[0]
    empty = users * ratings.n_items - len(ratings.by_user.values)
    after = np.histogram(np.clip(padded, low, high), edges)[0]
    return {
        "method": job.config.privacy.method,
        "users": users,
        "all_users": Ratings(job.inputs["ingest"]).n_users <= MOST_USERS,
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
