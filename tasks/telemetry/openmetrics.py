"""Describe releases as OpenMetrics text: age, verdict, risk, classes of people, who waits, budget, CPU time of steps.

Read from the store and the ledger alone, so that it can be asked for at any time and by any process. Counts of people
are exact: the text is the owner's (docs/monitoring.md).
"""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from tasks.config import ReleaseConfig
from tasks.series.calendar import STATES, calendar
from tasks.series.ledger import Ledger
from tasks.series.overview import describe
from tasks.store import STEP_TIMES, Store, read_json

HELP = {
    "murmur_snapshots": "Snapshots of a release by state.",
    "murmur_release_published_timestamp_seconds": "When the newest published snapshot was made.",
    "murmur_release_age_seconds": "Time since the newest published snapshot was made.",
    "murmur_snapshot_age_seconds": "Time since the day that the newest published snapshot is about.",
    "murmur_source_seconds_left": "Time until the source deletes the first snapshot that is missing.",
    "murmur_verdict_passed": "Whether the newest verdict passed (1) or refused (0).",
    "murmur_verdict_attempts": "Attempts at the snapshot of the newest verdict.",
    "murmur_check_passed": "Whether a check of the newest verdict passed; only checks that apply.",
    "murmur_check_observed": "What a check of the newest verdict measured.",
    "murmur_check_upper_bound": "Upper end of its interval.",
    "murmur_check_threshold": "Its threshold.",
    "murmur_smallest_class": "Smallest class of people who are alike in all releases of a population (effective k).",
    "murmur_people": "People of a population by state.",
    "murmur_budget_epsilon": "Privacy budget spent in a period.",
    "murmur_budget_epsilon_limit": "Limit of that period.",
    "murmur_step_cpu_seconds": "CPU time of a step when it was last computed, workers included.",
}


class Figures:
    """Collect figures by name, labels and value."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}

    def add(self, name: str, value: float | None, **labels: str) -> None:
        """Add a figure; one that is not known is left out."""
        if value is None:
            return
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, HELP[name], sorted(labels), registry=self._registry)
        self._gauges[name].labels(**labels).set(value)

    def text(self) -> str:
        """Return all figures in the format of OpenMetrics."""
        return str(generate_latest(self._registry).decode())


def metrics(configs: Iterable[ReleaseConfig], store: Store, now: datetime.datetime | None = None) -> str:
    """Return the figures of some releases and of their populations."""
    figures = Figures()
    now = datetime.datetime.now(datetime.UTC) if now is None else now
    populations = {}
    for config in configs:
        _release(figures, config, store, now)
        populations[config.population] = config
    for population, config in populations.items():
        if Ledger.exists(store, population):
            _population(figures, config, store)
    return figures.text()


def _release(figures: Figures, config: ReleaseConfig, store: Store, now: datetime.datetime) -> None:
    name = config.release.name
    days = calendar(config, store, now)
    for state in STATES:
        figures.add("murmur_snapshots", sum(day.state == state for day in days), release=name, state=state)
    left = [one.total_seconds() for day in days if day.is_open and (one := day.source_left(now)) is not None]
    figures.add(
        "murmur_source_seconds_left", min((one for one in left if one > 0), default=None), release=name
    )
    published = [day for day in days if day.state == "published"]
    if published:
        newest = published[-1]
        manifest = read_json(store.root / "published" / name / newest.directory / "manifest.json")
        made = datetime.datetime.fromisoformat(manifest["created_at"])
        about = datetime.datetime.combine(newest.snapshot, datetime.time(), datetime.UTC)
        figures.add("murmur_release_published_timestamp_seconds", made.timestamp(), release=name)
        figures.add("murmur_release_age_seconds", (now - made).total_seconds(), release=name)
        figures.add("murmur_snapshot_age_seconds", (now - about).total_seconds(), release=name)
    own = store.root / "private" / name
    judged = [day for day in days if (own / day.directory / "verdict.json").exists()]
    if judged:
        place = own / judged[-1].directory
        _verdict(figures, name, read_json(place / "verdict.json"))
        _steps(figures, name, place / "work")


def _verdict(figures: Figures, name: str, verdict: dict[str, Any]) -> None:
    figures.add("murmur_verdict_passed", float(verdict["passed"]), release=name)
    figures.add("murmur_verdict_attempts", verdict.get("attempts"), release=name)
    for line in verdict["checks"]:
        if not line["applicable"]:
            continue
        labels = {"release": name, "check": line["name"], "severity": line["severity"]}
        figures.add("murmur_check_passed", float(line["passed"]), **labels)
        figures.add("murmur_check_observed", line["observed"], **labels)
        figures.add("murmur_check_upper_bound", line["ci_high"], **labels)
        figures.add("murmur_check_threshold", line["threshold"], **labels)


def _steps(figures: Figures, name: str, work: Path) -> None:
    """Add the CPU time of steps whose results are still there (`release.retention_days`)."""
    for times in sorted(work.glob(f"*/{STEP_TIMES}")):
        step = read_json(times)
        figures.add("murmur_step_cpu_seconds", step["cpu_seconds"], release=name, step=step["step"])


def _population(figures: Figures, config: ReleaseConfig, store: Store) -> None:
    name = config.population
    with Ledger.open(store, name) as ledger:
        facts = describe(ledger, store, config.privacy.budget)
    figures.add("murmur_smallest_class", facts["classes"]["smallest"], population=name)
    people = {**facts["people"], **{key: (facts["newest"] or {}).get(key) for key in ("eligible", "waiting")}}
    for state, count in people.items():
        figures.add("murmur_people", count, population=name, state=state)
    spent = facts["spent"]
    for row in [*spent["periods"], spent["lifetime"]] if spent else []:
        figures.add("murmur_budget_epsilon", row["epsilon"], population=name, period=row["period"])
        figures.add("murmur_budget_epsilon_limit", row["limit"], population=name, period=row["period"])
