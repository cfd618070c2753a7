"""Evaluate: measure what the release is still useful for, by a shadow run of the same steps on 90 % of the ratings.

The other 10 % are held out before anything is fitted (tasks/shadow/split.py); checks/utility scores the predictions for
them and the ranks. The shadow's own release is kept for the gate, which needs users who are absent from a release; of a
small source several are made, each without other users, so that the verdict does not hang on one draw. Further runs
have accounts that an attacker made up (tasks/shadow/sybils.py); the gate measures what they reveal. Where a step
changes the ratings, the shadow's ratings are changed as the release's are, and the loss counts: baselines and held-out
ratings are of the ratings as ingested. Nothing of the shadow runs is published.

    heldout.parquet   held-out ratings and predictions for them (columns: tasks/shadow/predictions.py)
    ranks.parquet     the rank of the own released record among all, by distance
    ranking.parquet   ranks of held-out items in recommendations (columns: tasks/shadow/recommendation.py)
    summary.json      what the shadow run was made of
    shadow-release/   as published, and membership.parquet (group −1: absent), held_out.parquet (pseudonym, item)
    shadow-release-2/ … further draws, made without other users
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
from tasks.data.support import Support
from tasks.pipeline import Job, StepContext
from tasks.shadow.interactions import SUPPORT
from tasks.shadow.placement import Placement
from tasks.shadow.predictions import HeldOut, predict_from_groups, predict_from_records, with_baselines
from tasks.shadow.ranking import Compared, rank_profiles
from tasks.shadow.recommendation import ShadowRelease, write_ranking
from tasks.shadow.record_recommender import train_on_records, user_scales
from tasks.shadow.release import ReleasedRatings, keep_release
from tasks.shadow.run import Shadow, ShadowPlan, run_shadow
from tasks.shadow.split import STUDY_PURPOSE, Split, number_of_draws, split_ratings
from tasks.shadow.summary import rating_histogram
from tasks.shadow.sybils import SybilPlan, run_sybils
from tasks.shadow.synthetic import SyntheticPlan, evaluate_synthetic
from tasks.store import remove, write_json

RESULT = "utility"


class Params(Settings):
    """Hold the steps of the inner runs with their parameters, and what their releases declare and are compared by."""

    shadow: ShadowPlan
    sybil: SybilPlan | None  # None: records are single people's
    declared: Declaration
    synthetic: SyntheticPlan | None  # None: records are of people
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
        synthetic=SyntheticPlan.of(config),
        declared=Declaration.of(config),
        single=methods.least_size(config) == 1,
        metric=config.clustering.metric,
    )


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Split the ratings, run the method on the larger part, and predict the smaller from the result."""
    if job.params.synthetic is not None:
        return evaluate_synthetic(job, job.params.synthetic, job.params.declared)
    ingested, work, declared = Ratings(job.inputs.ratings), _work(job, 1), job.params.declared
    drawn = _draw_shadow(job, ingested, 1)
    split, shadow, placement = drawn.split, drawn.shadow, drawn.placement
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
    _keep(job, ingested, drawn, "shadow-release", 1)
    if job.purpose != STUDY_PURPOSE:
        _write_ranking(job, ingested, drawn, unpacked)
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
    absent = len(split.absent) + _further_draws(job, ingested)
    if job.params.sybil is not None and job.purpose != STUDY_PURPOSE:
        run_sybils(job, job.params.sybil, declared, ingested, job.out / "sybil")
    return {**counts, "absent": absent, "ranked": len(ranks)}


@dataclass(frozen=True)
class _Drawn:
    """Hold one shadow run: who and what was left out, its results, and where its people ended."""

    split: Split
    shadow: Shadow
    placement: Placement


def _draw_shadow(job: Job[Params, Inputs], ingested: Ratings, number: int) -> _Drawn:
    work = _work(job, number)
    split = split_ratings(
        ingested,
        work / "ingest",
        job.rng,
        fewest_present=_fewest_present(job.params.declared),
        leave_users_out=job.purpose != STUDY_PURPOSE,
        draw_number=number,
    )
    shadow = run_shadow(
        job.inner_run, job.params.shadow, work, job.inputs.suppression, job.engine, draw_number=number
    )
    return _Drawn(split, shadow, Placement.find(shadow.ratings, shadow.released, shadow.labels))


def _work(job: Job[Params, Inputs], number: int) -> Path:
    return job.out / ("shadow" if number == 1 else f"shadow-{number}")


def _keep(job: Job[Params, Inputs], ingested: Ratings, drawn: _Drawn, name: str, number: int) -> None:
    released = Ratings(job.inputs.suppression or job.inputs.ratings)
    keep_release(
        job.out / name,
        job.params.declared,
        job.snapshot,
        ReleasedRatings(ingested, released, drawn.shadow.released),
        drawn.shadow.profiles,
        drawn.split,
        drawn.placement,
        drawn.shadow.run.pseudonyms,
        _support(job, drawn, _work(job, number)),
    )


def _support(job: Job[Params, Inputs], drawn: _Drawn, work: Path) -> Path | None:
    """Write the numbers of raters of the shadow's groups as the release would publish them, where it does."""
    declared, shadow = job.params.declared, drawn.shadow
    if not declared.support:
        return None
    cells = Support.of_cohort(shadow.released, shadow.labels, declared.privacy["min_contributors"])
    cells.write(work / SUPPORT)
    return work / SUPPORT


def _write_ranking(job: Job[Params, Inputs], ingested: Ratings, drawn: _Drawn, unpacked: Path) -> None:
    """Write how well the kept shadow release ranks; ranking decides about releases with numbers of raters."""
    shadow, kept = drawn.shadow, job.out / "shadow-release" / SUPPORT
    support = kept if kept.exists() else None
    made = ShadowRelease(
        unpacked, job.params.declared.coding, drawn.placement, shadow.released.n_items, support
    )
    ids = ingested.user_ids().take(pa.array(drawn.split.present)) if support else None
    write_ranking(job, shadow.ratings, drawn.split.held_out, made, job.params.declared.scale, ids)


def _further_draws(job: Job[Params, Inputs], ingested: Ratings) -> int:
    """Make and keep further shadow releases where one leaves out too few people; return how many these left out."""
    if job.purpose == STUDY_PURPOSE:
        return 0
    absent = 0
    for number in range(2, 1 + number_of_draws(ingested.n_users, _fewest_present(job.params.declared))):
        drawn = _draw_shadow(job, ingested, number)
        _keep(job, ingested, drawn, f"shadow-release-{number}", number)
        absent += len(drawn.split.absent)
        remove(_work(job, number))
    return absent


def _fewest_present(declared: Declaration) -> int:
    """Return how many users a shadow run needs to form its groups."""
    return int(2 * declared.privacy["k"] * declared.privacy["l"])


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
