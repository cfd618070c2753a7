"""Try larger k after a refusal, and say which one would pass; where none does, whether the default method would.

Which k a data set needs is not known without trying: it depends on how sparse it is and how alike its people are. A
trial runs the same steps and the same gate with streams of its own (purpose "trial"), in a private directory that is
removed. Nothing of it can be published, and the release at the k that is found draws everything anew: so a trial is no
attempt at the snapshot (tasks/data/attempts.py).

On sparse data no k may pass for a method that lists what people rated: that a group holds all of a person's few items
reveals that the person is in the data, whatever k is. Predictions of every item reveal no such thing.
"""

import datetime
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks import pipeline
from tasks.config import ReleaseConfig
from tasks.engine import engine
from tasks.errors import Refused
from tasks.progress import Progress
from tasks.series.under_way import under_way
from tasks.store import Store, owner_only, read_json, remove

TRIED = (10, 20, 50, 100, 200, 500)
PURPOSE = "trial"
OTHER_METHOD = "predictive-padded"


def find_k(
    config: ReleaseConfig, snapshot: datetime.date, store: Store, progress: Progress
) -> dict[str, Any]:
    """Return {passes, tried, other}: the smallest k of TRIED above the release's that passes (None: none does), by k
    what refused the others, and what refuses OTHER_METHOD at the release's own k (None: not tried)."""
    config, population = config.alone(), config.population
    private = store.private(config.release.name, snapshot)
    with (
        owner_only(),
        under_way(store, population),
        tempfile.TemporaryDirectory(prefix=".find-k-", dir=private) as place,
        engine() as workers,
    ):
        inside = Store(place)
        outer = pipeline.open_run(config, snapshot, store, workers, progress)
        work = inside.private(config.release.name, snapshot) / "work"
        run = replace(outer, store=inside, work=work, purpose=PURPOSE)
        ingest = pipeline.execute("ingest", run)
        tried: list[dict[str, Any]] = []

        def refused_by(**privacy: object) -> list[str]:
            remove(work / "validate")  # of the trial before
            changed = config.model_copy(update={"privacy": config.privacy.model_copy(update=privacy)})
            return _judge(replace(run, config=changed, given={"ingest": ingest}))

        for k in possible_ks(config, ingest["counts"]["users"]):
            tried.append({"k": k, "failed": refused_by(k=k)})
            if not tried[-1]["failed"]:
                return {"passes": k, "tried": tried, "other": None}
        other = None if config.privacy.method == OTHER_METHOD else refused_by(method=OTHER_METHOD)
        return {"passes": None, "tried": tried, "other": other}


def possible_ks(config: ReleaseConfig, users: int) -> list[int]:
    """Return the k to try: larger than the release's, with enough people for l groups and for a shadow of as many."""
    least = 2 * max(2, config.privacy.l)
    return [k for k in TRIED if k > config.privacy.k and users // k >= least]


def in_words(found: dict[str, Any]) -> str:
    """Say which k would pass."""
    refused = "; ".join(
        f"k = {one['k']}: {', '.join(one['failed'])}" for one in found["tried"] if one["failed"]
    )
    also = f" (refused: {refused})" if refused else ""
    if found["passes"] is not None:
        return f"k = {found['passes']} would pass (tried with other draws){also}"
    none = f"no k that was tried would pass{also}"
    if not found["tried"]:
        none = "no larger k was tried: there are too few people"
    if found["other"] is None:
        return none
    would = f"would not either: {', '.join(found['other'])}" if found["other"] else "would"
    return f"{none}; method {OTHER_METHOD} at the same k {would}"


def _judge(run: pipeline.Run) -> list[str]:
    """Return the names of the checks that refuse this release; of a step that refuses to make it, the step's."""
    verdict = Path(run.work, "validate", "private", "verdict.json")
    try:
        pipeline.execute("validate", run)
    except Refused:
        return read_json(verdict)["failed"] if verdict.exists() else ["a step before the gate"]
    return []
