"""Evaluate: measure what the release is still useful for, by a shadow run of the same steps on 90 % of the ratings.

The other 10 % are held out before anything is fitted (tasks/shadow/split.py); checks/utility scores the predictions for
them and the ranks. The shadow's own release is kept for the gate, which needs users who are absent from a release.
Two further runs have accounts that an attacker made up (tasks/shadow/sybils.py); the gate measures what they reveal.
Where a step changes the ratings, the shadow's ratings are changed as the release's are, and the loss counts: baselines
and held-out ratings are of the ratings as ingested. Nothing of the shadow run is published.

    heldout.parquet   held-out ratings and predictions for them (columns: tasks/shadow/predictions.py)
    ranks.parquet     the rank of the own released record among all, by distance
    summary.json      what the shadow run was made of
    shadow-release/   as published, and membership.parquet (group −1: absent), held_out.parquet (pseudonym, item)
    sybil/            releases of data with made-up accounts, and whom these attack; not of single people's records
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.candidate import Declaration
from tasks.data.factors import open_model
from tasks.data.ratings import Ratings
from tasks.pipeline import Job, StepContext
from tasks.shadow.placement import Placement
from tasks.shadow.predictions import HeldOut, predict_from_groups, predict_from_records, with_baselines
from tasks.shadow.ranking import Compared, rank_profiles
from tasks.shadow.record_recommender import train_on_records, user_scales
from tasks.shadow.release import ReleasedRatings, keep_release
from tasks.shadow.run import ShadowPlan, run_shadow
from tasks.shadow.split import STUDY_PURPOSE, split_ratings
from tasks.shadow.summary import rating_histogram
from tasks.shadow.sybils import SybilPlan, run_sybils
from tasks.store import remove, write_json

RESULT = "utility"


class Params(Settings):
    """Hold the steps of the inner runs with their parameters, and what their releases declare and are compared by."""

    shadow: ShadowPlan
    sybil: SybilPlan | None  # None: records are single people's
    declared: Declaration
    single: bool  # whether a record is one user's
    metric: str


@dataclass(frozen=True)
class Inputs:
    """Hold the directories this step reads: all ratings, and what suppression left of them where the method has it."""

    ratings: Path
    suppression: Path | None = None


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(
        shadow=ShadowPlan.of(config),
        sybil=SybilPlan.of(config),
        declared=Declaration.of(config),
        single=methods.least_size(config) == 1,
        metric=config.clustering.metric,
    )


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Split the ratings, run the method on the larger part, and predict the smaller from the result."""
    ingested, work, declared = Ratings(job.inputs.ratings), job.out / "shadow", job.params.declared
    split = split_ratings(
        ingested,
        work / "ingest",
        job.rng,
        fewest_present=2 * declared.privacy["k"] * declared.privacy["l"],
        leave_users_out=job.purpose != STUDY_PURPOSE,
    )
    shadow = run_shadow(job.inner_run, job.params.shadow, work, job.inputs.suppression, job.engine)
    placement = Placement.find(shadow.ratings, shadow.released, shadow.labels)
    coding, (low, high), unpacked = declared.coding, declared.scale, work / "profiles"
    profiles.unpack(shadow.profiles, unpacked, coding.dtype)
    scales = user_scales(shadow.ratings, coding, profiles.is_dense(shadow.profiles))
    measure = {"metric": job.params.metric, "max_diff": high - low}
    compared = Compared(shadow.ratings, shadow.baseline, unpacked, coding, placement.published_items, measure)
    nearest, ranks = rank_profiles(job, compared, placement, scales)

    held_out = HeldOut(*split.held_out, placement, nearest)
    if job.params.single:
        factors = job.params.shadow.factors
        context = StepContext(factors, work / "recommender", job.engine, job.rng, job.noise, _no_progress)
        recommender = train_on_records(context, unpacked, coding, shadow.released.n_items)
        predicted = predict_from_records(shadow, held_out, recommender, scales, declared.scale, job.rng)
    else:
        predicted = predict_from_groups(shadow, held_out, unpacked, coding, job.rng)
    _write_utility(
        job.out, with_baselines(shadow, held_out, predicted, declared.scale), ranks, shadow.n_groups
    )
    keep_release(
        job.out / "shadow-release",
        declared,
        job.snapshot,
        ReleasedRatings(ingested, Ratings(job.inputs.suppression or job.inputs.ratings), shadow.released),
        shadow.profiles,
        split,
        placement,
        shadow.run.pseudonyms,
    )
    counts = {"held_out": len(held_out.truth), "users": len(split.present)}
    histogram = rating_histogram(shadow.ratings, open_model(shadow.baseline), declared.scale, job.rng)
    summary = {
        **counts,
        "method": declared.method,
        "source_users": ingested.n_users,
        "sampled": split.sampled,
        "absent_users": len(split.absent),
        "ranked_users": len(ranks),
        "groups": shadow.n_groups,
        "histogram": histogram,
    }
    write_json(job.out / "summary.json", summary)
    remove(work)
    if job.params.sybil is not None and job.purpose != STUDY_PURPOSE:
        run_sybils(job, job.params.sybil, declared, ingested, job.out / "sybil")
    return {**counts, "absent": len(split.absent), "ranked": len(ranks)}


def _write_utility(out: Path, columns: dict[str, np.ndarray], ranks: np.ndarray, groups: int) -> None:
    arrays = {name: pa.array(values.astype(np.float32), from_pandas=True) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), out / "heldout.parquet")
    ranked = {
        "self_rank": pa.array(ranks, pa.int32()),
        "groups": pa.array(np.full(len(ranks), groups), pa.int32()),
    }
    pq.write_table(pa.table(ranked), out / "ranks.parquet")


def _no_progress(done: int, total: int) -> None:
    return None
