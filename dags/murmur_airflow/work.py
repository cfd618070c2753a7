"""Do what the boxes stand for: run a step, judge a candidate and say what came out, take a release back."""

import datetime
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from murmur_airflow import alerts, verdicts
from murmur_airflow.outcome import explained, report_page, stopped
from tasks.config import ReleaseConfig, snapshot_date
from tasks.data.actor import Actor
from tasks.engine import workers_wanted
from tasks.errors import Refused, UsageError
from tasks.store import Store

log = logging.getLogger("murmur")


def run(
    step: str, config: ReleaseConfig, snapshot: datetime.date, approved: str | None = None
) -> dict[str, Any]:
    """Run a step; `approved` is the digest of the candidate that a person approved."""
    with explained():
        return _run(step, config, snapshot, approved)


def _run(
    step: str, config: ReleaseConfig, snapshot: datetime.date, approved: str | None = None
) -> dict[str, Any]:
    from tasks.pipeline import run_step

    if not os.environ.get("MURMUR_DASK") and workers_wanted() > 0:
        # Dask's embedded workers cannot start here: their nanny would import Airflow's task runner again.
        raise UsageError(
            "no Dask cluster is named, and none can be embedded in an Airflow task",
            where="MURMUR_DASK",
            remedy="set it to the scheduler's address, or MURMUR_WORKERS=0 to compute inside the task",
        )
    return run_step(step, config, snapshot, Store(), approved=approved)


def judge(
    config: ReleaseConfig, snapshot: datetime.date, pass_on: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """Run `validate`, log the verdict in plain words and pass it on, whatever it is; a refusal ends the task."""
    name, store = config.release.name, Store()
    candidate = store.private(name, snapshot) / "work" / "validate" / "candidate"
    with explained():
        try:
            reference = _run("validate", config, snapshot)
            store.storage.fetch(candidate.parent)  # where an earlier result was used, it may be elsewhere
        except Refused as refusal:
            verdict = _verdict(candidate, store, name, snapshot)
            if verdict is None or verdict["passed"]:  # refused before the gate reached a verdict
                raise
            pass_on(verdict)
            raise stopped(refusal, _refusal_in_words(verdict, refusal.remedy)) from None
    verdict = _verdict(candidate, store, name, snapshot)
    if verdict is not None:
        pass_on(verdict)
        log.info("%s %s: %s", name, snapshot, verdict["sentence"])
        log.info("%s", verdicts.change_in_words(verdict["change"]))
        for warning in verdict["warnings"]:
            log.warning("advisory check %s failed: %s", warning, verdicts.purpose(warning))
        log.info("report: %s", report_page(name, snapshot.isoformat()))
    return reference


def _verdict(candidate: Path, store: Store, name: str, snapshot: datetime.date) -> dict[str, Any] | None:
    """Return the verdict on a candidate, or None where the gate has not reached one."""
    before = verdicts.latest_before(store, name, snapshot.isoformat())
    try:
        verdict = verdicts.summarize(candidate, before)
    except (FileNotFoundError, KeyError):
        return None
    return {**verdict, "report": report_page(name, snapshot.isoformat())}


def _refusal_in_words(verdict: dict[str, Any], remedy: str) -> list[str]:
    """Return the lines of a refusal: which checks failed, where the report is, what can be done."""
    return [
        f"REFUSED {verdict['release']} {verdict['snapshot']}: nothing is published. {verdict['sentence']}",
        *(f"  {one['name']}: {one['words']}" for one in verdict["failed"]),
        f"report: {report_page(verdict['release'], verdict['snapshot'])}",
        f"to do: {remedy}",
    ]


def announcement(config: ReleaseConfig, snapshot: datetime.date, reference: dict[str, Any]) -> dict[str, Any]:
    """Return what the asset event says about a publication: one sentence, and figures for programs."""
    counts = dict(reference["counts"])
    digest = counts.pop("release_digest")
    budget = config.privacy.budget
    promise = verdicts.promise({"epsilon": budget.epsilon} if budget else {"k": config.privacy.k})
    return {
        "state": "published",
        "snapshot": snapshot.isoformat(),
        "summary": f"{config.release.name} {snapshot} published: "
        f"{verdicts.size(counts['users'], counts['groups'])}, {counts['items']:,} items, {promise}",
        "report": report_page(config.release.name, snapshot.isoformat()),
        "digest": digest,
        "counts": counts,
    }


def look(config: ReleaseConfig) -> dict[str, Any]:
    """Alert if the newest due snapshot has not arrived, and about every missing one that the source deletes soon."""
    now, name = datetime.datetime.now(datetime.UTC), config.release.name
    with explained():
        late = alerts.late_snapshot(config, now)
        ending = alerts.expiring_snapshots(config, now)
    sent = [] if late is None else alerts.send(config.alerts, alerts.compose("late", name, late))
    for snapshot, until in ending.items():
        message = alerts.compose("expiring", name, snapshot) | {"source_until": until}
        sent += alerts.send(config.alerts, message)
    if late is None and not ending:
        log.info("no snapshot of %s is overdue", name)
    return {"late": late, "expiring": ending, "sent": sent}


def actor_of(context: Any) -> Actor:
    """Return who triggered the run of a task; a run that its schedule began was triggered by nobody."""
    dag_run = context["dag_run"]
    return Actor(dag_run.triggering_user_name, "airflow", dag_run.run_id)


def snapshot_of(logical_date: datetime.datetime | None) -> datetime.date:
    """Return the snapshot a run is about. Never today: a rerun next year must find the same data."""
    with explained():
        if logical_date is None:
            raise UsageError(
                "this run has no logical date, so it has no snapshot",
                where="the run's logical_date",
                remedy="trigger it again with a logical date, or use a backfill",
            )
        return logical_date.astimezone(datetime.UTC).date()


def take_back(config: ReleaseConfig, snapshot: str, reason: str) -> dict[str, Any]:
    """Withdraw a snapshot and return the answer of `murmur withdraw`."""
    from tasks.series.withdrawal import withdraw

    with explained():
        day = snapshot_date(snapshot).isoformat()
        return withdraw(Store(), config.population, config.release.name, day, reason)
