"""Collect what the pages show: releases, their snapshots and reports.

Everything comes from the release files, the store and, for the snapshot of a run, Airflow's database. What only the
owner may see is left out here where `private` is False, so that no template can show it.
"""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tasks.config import ReleaseConfig
from tasks.config.release_files import find
from tasks.methods import method, promise_in_words
from tasks.store import Store, read_json

log = logging.getLogger(__name__)

RELEASES = Path(__file__).parents[2] / "releases"

# The attacks that name people (`names_people` of their `About`); what they achieve is the risk of being named.
NAMING = (
    "exact-rating",
    "fuzzy-rating",
    "label-based",
    "nearest-record",
    "scoreboard-rh",
    "scoring",
    "set-intersection",
    "structure-based",
    "tf-idf",
)
# What a reader of the public edition may know of a snapshot's state. That one was refused, or waits, is the owner's.
PUBLIC_STATES = ("published", "withdrawn", "due")
WORDS = {
    "published": "published",
    "approval": "waits for approval",
    "refused": "refused",
    "unfinished": "no verdict",
    "withdrawn": "withdrawn",
    "missing": "missing",
    "due": "due",
    "unavailable": "not published",
}


@dataclass(frozen=True)
class Snapshot:
    """Represent one snapshot on a page; figures are None where nothing of it is published."""

    date: str
    directory: str
    state: str
    words: str
    note: str = ""
    failed: tuple[str, ...] = ()
    people: int | None = None
    groups: int | None = None
    passed: str = ""
    risk: float | None = None
    risk_limit: float | None = None
    loss: float | None = None
    loss_limit: float | None = None
    has_report: bool = False


@dataclass(frozen=True)
class ReleasePage:
    """Represent one release on a page, its snapshots oldest first."""

    name: str
    method: str
    promise: str
    protection: tuple[str, str, str]  # name, number, and what it is
    schedule: str | None
    snapshots: tuple[Snapshot, ...]
    problem: str = ""

    @property
    def published(self) -> tuple[Snapshot, ...]:
        """Return the snapshots that are offered."""
        return tuple(one for one in self.snapshots if one.state == "published")

    @property
    def latest(self) -> Snapshot | None:
        """Return the newest snapshot that is offered."""
        return self.published[-1] if self.published else None

    @property
    def newest(self) -> Snapshot | None:
        """Return the newest snapshot that was due or made."""
        past = [one for one in self.snapshots if one.state != "due"]
        return past[-1] if past else None


def names() -> list[str]:
    """Return the names of all releases that a usable file describes."""
    return sorted(_configs())


def _configs() -> dict[str, ReleaseConfig]:
    return {config.release.name: config for config in find(RELEASES)[0].values()}


def release(name: str, *, private: bool) -> ReleasePage:
    """Return the page of a known release."""
    config = _configs()[name]
    page = partial(
        ReleasePage,
        name,
        config.privacy.method,
        promise_in_words(config),
        _protection(config),
        config.release.schedule,
    )
    store = Store()
    if not any((store.root / part).is_dir() for part in ("published", "private")):
        words = "Nothing was published yet, or the API server cannot read the store (docs/airflow.md)."
        return page((), problem=words)
    try:
        days = _calendar(config)
    except Exception as problem:  # a file, or the ledger's database: one release must not hide the others
        log.warning("the calendar of %s cannot be read: %s", name, type(problem).__name__)
        return page(
            (), problem="The store, or the ledger, cannot be read by the API server (docs/airflow.md)."
        )
    return page(tuple(_snapshot(store, name, day, private=private) for day in days))


def _protection(config: ReleaseConfig) -> tuple[str, str, str]:
    if config.privacy.budget:
        return "ε", f"{config.privacy.budget.epsilon:g}", f"per {config.privacy.budget.per}"
    what = (
        "the risk is at most 1/k" if method(config).publishes_persons else "people share a profile, at least"
    )
    return "k", f"{config.privacy.k:,}", what


def _calendar(config: ReleaseConfig) -> list[Any]:
    from tasks.series.calendar import calendar  # NumPy, and the ledger's database

    return calendar(config, Store())


def _snapshot(store: Store, name: str, day: Any, *, private: bool) -> Snapshot:
    state = day.state if private or day.state in PUBLIC_STATES else "unavailable"
    shown = {
        "date": day.snapshot.isoformat(),
        "directory": day.directory,
        "state": state,
        "words": WORDS[state],
        "note": day.note if private or state == "withdrawn" else "",
        "failed": day.failed if private else (),
    }
    if state == "published":
        shown |= _figures(store.root / "published" / name / day.directory / "manifest.json")
    shown["has_report"] = _report_path(store, name, day, private=private) is not None
    return Snapshot(**shown)


def _figures(manifest_path: Path) -> dict[str, Any]:
    """Return the figures of a published snapshot, from its public manifest."""
    manifest = read_json(manifest_path)
    lines = {line["name"]: line for line in manifest.get("checks", [])}
    judged = [line for line in lines.values() if line["severity"] == "gate" and line["applicable"]]
    tried = [lines[name] for name in NAMING if name in lines and lines[name]["observed"] is not None]
    on_average = [line for line in tried if line.get("ci_high") is not None]  # as the report's first figure
    worst = max(on_average or tried, key=_upper, default=None)
    utility = lines.get("utility", {})
    return {
        "people": manifest["counts"].get("users"),
        "groups": manifest["counts"].get("groups"),
        "passed": f"{sum(line['passed'] for line in judged)} of {len(judged)}",
        "risk": worst and _upper(worst),
        "risk_limit": worst and worst["threshold"],
        "loss": utility.get("observed"),
        "loss_limit": utility.get("threshold"),
    }


def _upper(line: dict[str, Any]) -> float:
    """Return the upper end of what an attack achieved."""
    high = line.get("ci_high")
    return float(line["observed"] if high is None else high)


def report(name: str, directory: str, *, private: bool) -> str | None:
    """Return the report of a snapshot: of those in the calendar, the one whose directory has exactly this name."""
    for day in _calendar(_configs()[name]):
        if directory in (day.directory, day.snapshot.isoformat()):
            path = _report_path(Store(), name, day, private=private)
            return None if path is None else path.read_text(encoding="utf-8")
    return None


def _report_path(store: Store, name: str, day: Any, *, private: bool) -> Path | None:
    """Return where the report of a snapshot is: the owner's edition if they may see it, else the public one."""
    public = store.root / "published" / name / day.directory
    own = store.root / "private" / name / day.directory
    candidate = store.root / "private" / name / day.snapshot.isoformat() / "work" / "validate"
    owners = [own / "report.html"]
    if day.state in ("refused", "approval", "unfinished"):
        owners += [candidate / "private" / "report.html", candidate / "candidate" / "report.html"]
    wanted = [*(owners if private else []), public / "report.html"]
    return next((path for path in wanted if path.is_file()), None)


def snapshot_of_run(dag_id: str, run_id: str) -> str | None:
    """Return the snapshot that a run is about, from Airflow's database."""
    import datetime

    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        moment = session.scalar(
            select(DagRun.logical_date).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
        )
    return None if moment is None else moment.astimezone(datetime.UTC).date().isoformat()
