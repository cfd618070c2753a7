"""Run the mechanism of a release of synthetic rows on 90 % of the ratings, and keep what the gate needs of it.

Each kind of evidence is one function in `EVIDENCE`, which gets the results of this run and writes its files.

The shadow's rows show how useful rows of so much noise are, and who was not in the data. Everything here is the owner's
alone, and stays private with the release: it was measured on the data, and no budget pays for it.

    ranking.parquet, asked.parquet   ranks of held-out items in recommendations (tasks/shadow/recommendation.py)
    summary.json                     what the shadow run was made of
    canaries/                        trials of the mechanism with made-up people (tasks/shadow/canaries.py)
    shadow-release-2/ …              further draws, made without other people, where one leaves out few
    shadow-release/                  groups.parquet, items.parquet, members.parquet and manifest.json, as published
      membership.parquet             no rows, as of the release
      people.parquet                 user (source id), present: whether the shadow run's data had the person
      held_out.parquet               user (source id), item (id), rating: not in the shadow run's data either
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.candidate import Candidate, Contents, Declaration, Membership, recorded_digest, write_release
from tasks.data.noisy_statistics import noise_key
from tasks.data.ratings import Ratings, places
from tasks.pipeline import Job, Plan, execute, plan
from tasks.shadow.audited_mechanism import AuditedMechanism
from tasks.shadow.canaries import audit_base, write_trials
from tasks.shadow.placement import Placement
from tasks.shadow.recommendation import ShadowRelease, write_ranking
from tasks.shadow.split import STUDY_PURPOSE, Split, number_of_draws, split_ratings
from tasks.store import remove, write_json

STEPS = ("statistics", "synthesis")
FEWEST_PRESENT = 2
MOST_AUDITED = 20_000  # people from whom the data of the audit are chosen
NOTHING_WITHHELD = {"users": 0, "items": 0, "why": ""}


class SyntheticPlan(Settings):
    """Hold the steps of the mechanism with their parameters."""

    steps: Plan

    @classmethod
    def of(cls, config: ReleaseConfig) -> "SyntheticPlan | None":
        """Return the plan of a release; None: it publishes no synthetic rows."""
        return None if config.privacy.budget is None else cls(steps=plan(config, STEPS))


@dataclass(frozen=True)
class SyntheticShadow:
    """Hold the results of the mechanism on the shadow's ratings, and what surrounds them."""

    ingested: Ratings  # of the release
    declared: Declaration
    mechanism: Any  # the parameters of the step `statistics`
    ratings: Ratings  # of the shadow
    split: Split
    statistics: Path
    groups: Path  # its groups.parquet

    def item_ids(self) -> pa.Array:
        """Return the items of the rows, by position."""
        return pq.read_table(self.statistics / "items.parquet").column("item").combine_chunks()


def evaluate_synthetic(job: Job[Any, Any], chosen: SyntheticPlan, declared: Declaration) -> dict[str, Any]:
    """Run the mechanism without what is held out, and write the evidence; return the counts of the step."""
    work = job.out / "shadow"
    shadow = _run(job, chosen, declared, work)
    for write in EVIDENCE:
        write(job, shadow)
    absent = len(shadow.split.absent) + _further_draws(job, chosen, declared, shadow.ingested.n_users)
    summary = {
        "held_out": len(shadow.split.held_out[0]),
        "users": len(shadow.split.present),
        "method": declared.method,
        "source_users": shadow.ingested.n_users,
        "sampled": shadow.split.sampled,
        "absent_users": absent,
    }
    write_json(job.out / "summary.json", summary)
    remove(work)
    return {}  # exact numbers stay in the owner's files: counts of steps are in logs and in Airflow's database


def _further_draws(job: Job[Any, Any], chosen: SyntheticPlan, declared: Declaration, users: int) -> int:
    """Make and keep further shadow releases where one leaves out too few people; return how many these left out."""
    if job.purpose == STUDY_PURPOSE:
        return 0
    absent = 0
    for number in range(2, 1 + number_of_draws(users, FEWEST_PRESENT)):
        work = job.out / f"shadow-{number}"
        shadow = _run(job, chosen, declared, work, number)
        keep_release(job, shadow, f"shadow-release-{number}")
        absent += len(shadow.split.absent)
        remove(work)
    return absent


def _run(
    job: Job[Any, Any], chosen: SyntheticPlan, declared: Declaration, work: Path, draw_number: int = 1
) -> SyntheticShadow:
    ingested = Ratings(job.inputs.ratings)
    split = split_ratings(
        ingested,
        work / "ingest",
        job.rng,
        fewest_present=FEWEST_PRESENT,
        leave_users_out=job.purpose != STUDY_PURPOSE,
        draw_number=draw_number,
    )
    purpose = "shadow" if draw_number == 1 else f"shadow {draw_number}"
    inner = job.inner_run(chosen.steps, {"ingest": work / "ingest"}, work, purpose)
    made = {name: Path(execute(name, inner)["path"]) for name in STEPS}
    groups = made["synthesis"] / "groups.parquet"
    mechanism = chosen.steps.steps["statistics"].params
    ratings = Ratings(work / "ingest")
    return SyntheticShadow(ingested, declared, mechanism, ratings, split, made["statistics"], groups)


def keep_release(job: Job[Any, Any], shadow: SyntheticShadow, name: str = "shadow-release") -> None:
    """Write the shadow's release, who was in its data, and what was held out of it."""
    out, split = job.out / name, shadow.split
    contents = Contents(
        shadow.groups, recorded_digest(shadow.groups), shadow.item_ids().to_pylist(), NOTHING_WITHHELD
    )
    nobody = Membership(pa.array([], pa.string()), pa.array([], pa.string()), np.empty(0, np.int32))
    write_release(Candidate(out, out), shadow.declared, job.snapshot, contents, nobody)
    rows = np.concatenate([split.present, split.absent])
    ids = shadow.ingested.user_ids().take(pa.array(rows)).cast(pa.string())
    present = pa.array(np.arange(len(rows)) < len(split.present))
    people = pa.table({"user": ids, "present": present}).sort_by("user")
    pq.write_table(people, out / "people.parquet", compression="zstd")
    user, item, rating = split.held_out
    columns = {
        "user": ids.take(pa.array(user)),
        "item": pa.array(shadow.ingested.item_ids(), pa.string()).take(pa.array(item)),
        "rating": pa.array(rating, pa.float32()),
    }
    pq.write_table(pa.table(columns), out / "held_out.parquet", compression="zstd")


def rank_held_out(job: Job[Any, Any], shadow: SyntheticShadow) -> None:
    """Write how well the shadow's rows rank what was held out; nobody has a record among them."""
    items, coding = shadow.item_ids(), shadow.declared.coding
    unpacked = job.out / "shadow" / "profiles"
    profiles.unpack(shadow.groups, unpacked, coding.dtype)
    column_of_item = places(pa.array(shadow.ratings.item_ids(), pa.string()), items)
    nobody = np.full(shadow.ratings.n_users, -1, np.int64)
    made = ShadowRelease(unpacked, coding, Placement(nobody, column_of_item), len(items))
    ids = shadow.ingested.user_ids().take(pa.array(shadow.split.present))
    write_ranking(job, shadow.ratings, shadow.split.held_out, made, shadow.declared.scale, ids)


def audit_mechanism(job: Job[Any, Any], shadow: SyntheticShadow) -> None:
    """Run the mechanism with and without made-up people, for a lower bound on epsilon."""
    if job.purpose == STUDY_PURPOSE:
        return
    params = shadow.mechanism
    settings, declared = params.mechanism(), shadow.declared.privacy
    audited = AuditedMechanism.of(settings, partial(noise_key, job, params.model_dump(mode="json")))
    people = np.sort(job.rng("canary crowd").permutation(shadow.ratings.n_users)[:MOST_AUDITED])
    base = audit_base(audited, shadow.ratings.by_user.take(people), job.rng)
    claim = (float(declared["epsilon"]), float(declared["delta"]))
    write_trials(job.out / "canaries", audited, base, settings.scale, job.rng, claim)


EVIDENCE: tuple[Callable[[Job[Any, Any], SyntheticShadow], None], ...] = (
    keep_release,
    rank_held_out,
    audit_mechanism,
)
