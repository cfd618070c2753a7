"""State for every snapshot of a release what became of it: published, refused, withdrawn, missing, or still to come.

The schedule says which snapshots are due, the ledger which were ever public, the owner's directories which were refused
or wait for approval. `murmur calendar` prints it, and the Releases page in Airflow shows the same. It is the owner's:
that a snapshot was refused, and by what, is never public.
"""

import datetime
from collections import Counter
from dataclasses import asdict, dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from tasks.config import ReleaseConfig
from tasks.series.ledger import Ledger
from tasks.series.refusal import KEPT
from tasks.series.rows import PublishedRelease, parse_directory
from tasks.series.schedule import due_moments, repeats
from tasks.store import Store, read_json

COMING = 1  # snapshots that are not due yet
STATES = ("published", "approval", "refused", "unfinished", "withdrawn", "missing", "due")
OPEN = ("missing", "unfinished")
WORDS = {
    "published": "published",
    "approval": "passed, waits for approval",
    "refused": "refused by the gate",
    "unfinished": "begun, no verdict (running, or it failed)",
    "withdrawn": "withdrawn",
    "missing": "missing: due, and no run has begun",
    "due": "not due yet",
}


@dataclass(frozen=True)
class CalendarDay:
    """Represent one snapshot: its state, where it is, and why it is so.

    `directory` is that of the revision which is offered (`<snapshot>-rN` after an erasure), else of the snapshot;
    `failed` are the checks that refused it; `note` is one line for the owner, or nothing.
    """

    snapshot: datetime.date
    state: str  # one of STATES
    directory: str
    scheduled: bool = False  # False: a run by hand for a day on which nothing is due
    failed: tuple[str, ...] = ()
    attempts: int | None = None
    note: str = ""
    source_until: datetime.date | None = None  # when the source deletes it (alerts.source_days); None: never

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `murmur calendar --json`."""
        until = self.source_until and self.source_until.isoformat()
        return {
            **asdict(self),
            "snapshot": self.snapshot.isoformat(),
            "failed": list(self.failed),
            "source_until": until,
        }

    @property
    def is_open(self) -> bool:
        """Return whether the snapshot was due and there is neither a release nor a verdict."""
        return self.state in OPEN

    def source_left(self, now: datetime.datetime) -> datetime.timedelta | None:
        """Return for how long the source still has it; None: for ever."""
        if self.source_until is None:
            return None
        return datetime.datetime.combine(self.source_until, datetime.time(), datetime.UTC) - now


def calendar(
    config: ReleaseConfig, store: Store, now: datetime.datetime | None = None, *, coming: int = COMING
) -> list[CalendarDay]:
    """Return every snapshot of a release in the order of days, and the next `coming` ones that are due.

    Nothing is changed, and no ledger is made where there is none. A snapshot is missing if its time by the schedule has
    passed, since release.start_date, and neither the ledger nor the owner's directory knows of it.
    """
    now = datetime.datetime.now(datetime.UTC) if now is None else now
    past, next_days = _scheduled(config, now, coming)
    own = store.root / "private" / config.release.name
    public = _public(config, store)
    days = {*past, *next_days, *public, *_begun(own)}
    found = [
        replace(_day(config, own, day, public.get(day)), scheduled=day in past or day in next_days)
        if day in past or day in public or _is_begun(own / day)
        else CalendarDay(datetime.date.fromisoformat(day), "due", day, scheduled=True)
        for day in sorted(days)
    ]
    return [_with_source(one, config.alerts.source_days, now) for one in found]


def expiring(
    config: ReleaseConfig, store: Store, now: datetime.datetime | None = None
) -> list[tuple[CalendarDay, datetime.timedelta]]:
    """Return the snapshots without a verdict that the source deletes soon (alerts.warning_days), with the time left.

    A look once a day finds each of them before that: one is due on its day at the latest, and the source keeps it for
    two days at least.
    """
    now = datetime.datetime.now(datetime.UTC) if now is None else now
    soon = datetime.timedelta(days=config.alerts.warning_days)
    open_days = [(day, day.source_left(now)) for day in calendar(config, store, now, coming=0) if day.is_open]
    return [
        (day, left) for day, left in open_days if left is not None and datetime.timedelta() < left <= soon
    ]


def _with_source(day: CalendarDay, kept_days: int | None, now: datetime.datetime) -> CalendarDay:
    """Add when the source deletes a snapshot, and to one that is open a word about that."""
    if kept_days is None:
        return day
    until = day.snapshot + datetime.timedelta(days=kept_days)
    dated = replace(day, source_until=until)
    if not dated.is_open or day.note:
        return dated
    is_gone = now.date() >= until
    words = f"the source deleted it on {until}" if is_gone else f"the source deletes it on {until}"
    return replace(dated, note=words)


def describe_calendar(
    config: ReleaseConfig, store: Store, now: datetime.datetime | None = None, *, coming: int = COMING
) -> dict[str, Any]:
    """Return the calendar of a release as `murmur calendar --json` has it: counts by state, and every snapshot."""
    days = calendar(config, store, now, coming=coming)
    counts = Counter(one.state for one in days)
    return {
        "release": config.release.name,
        "population": config.population,
        "schedule": config.release.schedule,
        "counts": {state: counts[state] for state in STATES},
        "snapshots": [one.to_json() for one in days],
    }


def _scheduled(config: ReleaseConfig, now: datetime.datetime, coming: int) -> tuple[set[str], set[str]]:
    """Return the days that have been due, and the next ones."""
    schedule, start = config.release.schedule, config.release.start_date
    if schedule is None or not repeats(schedule):
        return set(), set()
    past = takewhile(lambda moment: moment <= now, due_moments(schedule, start))
    later = (moment for moment in due_moments(schedule, max(now.date(), start)) if moment > now)
    past_days = {moment.date().isoformat() for moment in past}
    # A day whose first moment has passed is not to come, even if the schedule names it again.
    new_days = (day for day in (moment.date().isoformat() for moment in later) if day not in past_days)
    return past_days, set(islice(new_days, coming))


def _public(config: ReleaseConfig, store: Store) -> dict[str, tuple[PublishedRelease, str]]:
    """Return by snapshot the revision that is offered, else the newest one; and why that was withdrawn."""
    if not Ledger.exists(store, config.population):
        return {}
    with Ledger.open(store, config.population) as ledger:
        releases = [one for one in ledger.releases() if one.name == config.release.name]
        reasons = {one.id: why for one, why, _ in ledger.withdrawals()}
    releases.sort(key=lambda one: (one.state == "published", one.revision))
    return {one.snapshot: (one, reasons.get(one.id, "")) for one in releases}


def _begun(own: Path) -> set[str]:
    """Return the snapshots for which a run has begun."""
    places = own.iterdir() if own.is_dir() else ()
    found = (parse_directory(place.name) for place in places if _is_begun(place))
    return {one[0] for one in found if one is not None}


def _is_begun(place: Path) -> bool:
    return (place / "work").is_dir() or (place / "verdict.json").exists()


def _day(
    config: ReleaseConfig, own: Path, day: str, public: tuple[PublishedRelease, str] | None
) -> CalendarDay:
    """Return what became of a snapshot that was due or begun."""
    directory = day if public is None else public[0].directory
    known_as = CalendarDay(datetime.date.fromisoformat(day), "missing", directory)
    path = own / directory / "verdict.json"
    verdict = read_json(path) if path.exists() else None
    if verdict is not None:
        known_as = replace(known_as, attempts=verdict.get("attempts", 1))
    if public is not None:
        return replace(known_as, state=public[0].state, note=_note(*public, verdict or {}))
    if verdict is None:
        return replace(known_as, state="unfinished" if _is_begun(own / day) else "missing")
    if not verdict["passed"]:
        return replace(known_as, state="refused", failed=tuple(verdict.get("failed", ())))
    if config.release.needs_approval:
        return replace(known_as, state="approval")
    return replace(known_as, state="unfinished", note="the gate passed it, and it was not published")


def _note(release: PublishedRelease, reason: str, verdict: dict[str, Any]) -> str:
    if release.state == "withdrawn":
        return reason
    refused_cohort = verdict.get(KEPT)
    if refused_cohort:
        return str(refused_cohort["why"])
    return "repaired after an erasure" if release.revision else ""
