"""Let a cohort wait that the gate refused, and publish its snapshot with the carried-over groups alone.

What is then published is what a snapshot without a cohort publishes: nothing in it depends on the people who wait but
their number, rounded down to a multiple of k. Which cohort was refused, and by what, stays with the owner
(refused_cohort/ and verdict.json of the snapshot, attempts.json, the ledger).
"""

import datetime
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.series.assembly import Cohort, Request
from tasks.series.cohort_ratings import read_plan
from tasks.series.ledger import Ledger
from tasks.series.rows import RefusedCohort
from tasks.store import Store, digest_of, read_json, remove, write_json

KEPT = "refused_cohort"  # directory of the owner's, and key in verdict.json and series.json
FILES = ("report.html", "checks.json", "verdict.json", "validation.json")


@dataclass(frozen=True)
class Refusal:
    """Represent the refusal of a cohort: how many newcomers it had, and the checks that it failed."""

    newcomers: int
    failed: tuple[str, ...]

    def in_words(self, outcome: str = "published without them") -> str:
        """Return one line for the owner."""
        return f"cohort of {self.newcomers:,} newcomers refused by {', '.join(self.failed)}; {outcome}"

    def to_json(self) -> dict[str, Any]:
        """Return the facts as the owner's files and the answer of `murmur run` hold them."""
        return {"newcomers": self.newcomers, "failed": list(self.failed), "why": self.in_words()}


def earlier_refusal(
    store: Store, population: str, name: str, snapshot: datetime.date, ingest: Path
) -> Refusal | None:
    """Return why this snapshot was published without the cohort that was planned; None: it was not.

    A published release never changes. By now these people may be released, so the gate cannot judge them again as
    newcomers: a step that is run again takes what was decided from the owner's files.
    """
    plan = read_plan(ingest)
    if plan is None or not plan["cohort"]:
        return None
    with Ledger.open(store, population) as ledger:
        own = [
            one.id
            for one in ledger.releases()
            if (one.name, one.snapshot, one.revision) == (name, snapshot.isoformat(), 0)
        ]
        if not own or any(group.release_id == own[0] for group in ledger.groups(state=None)):
            return None
    verdict = store.private(name, snapshot) / "verdict.json"
    facts = read_json(verdict).get(KEPT, {}) if verdict.exists() else {}
    return Refusal(plan["cohort"], tuple(facts.get("failed", ())))


def times_refused(request: Request, cohort: Cohort) -> int:
    """Return how many attempts with any of these newcomers the gate refused at other snapshots."""
    with Ledger.open(request.store, request.population) as ledger:
        tokens = ledger.tokens(_newcomers(cohort))
        return ledger.times_refused(request.release, request.snapshot.isoformat(), tokens)


def enter_refusal(request: Request, cohort: Cohort, attempt: dict[str, Any]) -> None:
    """Write into the ledger that these newcomers were refused, so that trying them again counts."""
    named = RefusedCohort(request.release, request.snapshot.isoformat(), digest_of(attempt))
    with Ledger.open(request.store, request.population) as ledger:
        ledger.enter_refused(named, ledger.tokens(_newcomers(cohort)))


def _newcomers(cohort: Cohort) -> Sequence[str]:
    """Return the ids of the cohort's people but pooled survivors, who were released before."""
    ids, pools = cohort.ratings.user_ids(), cohort.ratings.directory / "pools.npy"
    return (ids.filter(pa.array(np.load(pools) < 0)) if pools.exists() else ids).to_pylist()


def write_plan(ingest: Path, place: Path, refusal: Refusal) -> None:
    """Write series.json of a snapshot whose cohort waits."""
    facts = read_json(ingest / "series.json")
    waiting = facts["waiting"] + facts["cohort"] + facts["pooled"]
    nobody = {"cohort": 0, "pooled": 0, "strata": 0, "mean_age_days": None}
    write_json(place, {**facts, **nobody, "waiting": waiting, KEPT: refusal.to_json()})


def keep_files(public: Path, private: Path, place: Path) -> None:
    """Copy what the owner keeps of a refused candidate: verdict and report, nothing about single people."""
    remove(place)
    place.mkdir()
    for name in FILES:
        source = next(side / name for side in (private, public) if (side / name).exists())
        shutil.copyfile(source, place / name)
