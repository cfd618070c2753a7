"""Find out where a series stands and how many people come, for `murmur plan`: counts only, nobody's token.

From two releases on, all of it comes from the ledger and from what the owner's files say about each release
(series.json: who was eligible; verdict.json: the loss that the gate measured). Before that the source is read, and the
people who came in each month are counted by their first ratings.
"""

import datetime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import formats
from tasks.config import ReleaseConfig, Source
from tasks.errors import UsageError
from tasks.series.cohort import DAY_SECONDS, SeriesParams, end_of
from tasks.series.ledger import Ledger
from tasks.series.outlook import (
    DAYS_PER_MONTH,
    Cohort,
    Newcomers,
    Standing,
    mean_age,
    mean_loss,
    months_between,
)
from tasks.series.rows import PublishedRelease, about_people
from tasks.store import Store, read_json

FEWEST_RELEASES = 2  # whose difference is a rate
MONTHS_COUNTED = 12  # of the source, at most
WIDEST_LOSS = 0.5  # width of the 95 % interval up to which a measured loss is used


@dataclass(frozen=True)
class Basis:
    """Hold what an outlook is based on: `words` says where the rate comes from, `newest` is the last snapshot that was
    published."""

    standing: Standing
    newcomers: Newcomers
    words: str
    newest: datetime.date | None = None


@dataclass(frozen=True)
class _Plan:
    """Hold what the owner's files say about a release."""

    release: PublishedRelease
    day: datetime.date
    facts: dict[str, Any]

    @property
    def backlog(self) -> int:
        """Return how many eligible people it left waiting."""
        return self.facts["eligible"] - self.facts["carried_people"] - self.facts["cohort"]


def find_basis(config: ReleaseConfig, store: Store, snapshot: datetime.date | None) -> Basis:
    """Return where the series stands; `snapshot` is that of the source to read where there are too few releases."""
    if not Ledger.exists(store, config.population):
        return _from_source(config, None, (), snapshot or config.release.start_date)
    with Ledger.open(store, config.population) as ledger:
        releases = about_people(ledger.releases())
        cohorts = _cohorts(ledger, store, releases)
        plans = _advancing([plan for plan in (_plan_of(store, one) for one in releases) if plan])
        newest = max((datetime.date.fromisoformat(one.snapshot) for one in releases), default=None)
        if len(plans) >= FEWEST_RELEASES:
            basis = _from_releases(plans, cohorts)
        else:
            basis = _from_source(config, ledger, cohorts, snapshot or newest or config.release.start_date)
    return replace(basis, newest=newest)


# --- from releases ------------------------------------------------------------------------------------------


def _plan_of(store: Store, release: PublishedRelease) -> _Plan | None:
    path = _private(store, release) / "series.json"
    facts = read_json(path) if path.exists() else {}
    if not {"eligible", "carried_people", "cohort", "waiting"} <= facts.keys():
        return None
    return _Plan(release, datetime.date.fromisoformat(release.snapshot), facts)


def _advancing(plans: list[_Plan]) -> list[_Plan]:
    """Return the releases of later snapshots than all published before: a backfill says nothing about newcomers."""
    found: list[_Plan] = []
    for plan in plans:
        if not found or plan.day > found[-1].day:
            found.append(plan)
    return found


def _cohorts(ledger: Ledger, store: Store, releases: list[PublishedRelease]) -> tuple[Cohort, ...]:
    """Return the people of live groups by the release with which they entered."""
    people: dict[int, int] = {}
    for group in ledger.groups():
        people[group.release_id] = people.get(group.release_id, 0) + group.size
    return tuple(
        Cohort(
            datetime.date.fromisoformat(one.snapshot),
            people[one.id],
            _age_of(_private(store, one)),
            _loss_of(_private(store, one)),
        )
        for one in releases
        if one.id in people
    )


def _private(store: Store, release: PublishedRelease) -> Path:
    return store.root / "private" / release.name / release.directory


def _age_of(private: Path) -> float | None:
    path = private / "series.json"
    days = read_json(path).get("mean_age_days") if path.exists() else None
    return None if days is None else days / DAYS_PER_MONTH


def _loss_of(private: Path) -> float | None:
    """Return the loss that the gate measured on the cohort of a release (check `utility`), if it is known well enough:
    of a small cohort few ratings are held out, and the figure may be anything."""
    path = private / "verdict.json"
    checks = read_json(path).get("checks", []) if path.exists() else []
    for one in checks:
        if one["name"] == "utility" and one.get("applicable", True) and one["ci_low"] is not None:
            return one["observed"] if one["ci_high"] - one["ci_low"] <= WIDEST_LOSS else None
    return None


def _from_releases(plans: list[_Plan], cohorts: tuple[Cohort, ...]) -> Basis:
    """Count who came between the first and the last release: who entered since, and the growth of the backlog."""
    first, last = plans[0], plans[-1]
    entered = sum(plan.facts["cohort"] for plan in plans[1:])
    came = max(0, entered + last.backlog - first.backlog)
    months = months_between(first.day, last.day)
    # The first cohort is everybody who was there; those who come are like the later ones.
    later = [one for one in cohorts if one.snapshot > first.day] or list(cohorts)
    age = None
    if all(one.age_months is not None for one in later):
        age = mean_age([Cohort(last.day, one.people, one.age_months) for one in later], last.day)
    standing = Standing(cohorts, last.day, last.backlog, last.facts["waiting"] - last.backlog)
    words = f"{came:,} people came between the releases of {first.day} and {last.day} ({len(plans)} releases)"
    return Basis(standing, Newcomers(came / months, age, mean_loss(later)), words)


# --- from the source ----------------------------------------------------------------------------------------


def _from_source(
    config: ReleaseConfig, ledger: Ledger | None, cohorts: tuple[Cohort, ...], day: datetime.date
) -> Basis:
    """Count people of the source by the month of their first rating; the rate is the median month's."""
    params = SeriesParams.of(config)
    assert params is not None
    people = read_people(config.source, day)
    if people.first is None or people.seconds is None:
        raise UsageError(
            "the source has no times, so when people came is not known, and fewer than two releases show it",
            where="source.columns.timestamp",
            remedy="name the column of times, or publish two releases first",
        )
    by_month = per_month(people.first, day)
    rate = float(np.median(by_month))
    never = np.ones(len(people.ids), bool)
    if ledger is not None:
        tokens = ledger.tokens(people.ids.to_pylist())
        known = {*ledger.people()[0], *ledger.blocked()}
        never = np.array([token not in known for token in tokens])
    waited = people.first <= end_of(day) - params.waiting_days * DAY_SECONDS
    eligible = never & waited & (people.ratings >= params.min_ratings)
    recent = people.first >= end_of(day) - DAYS_PER_MONTH * DAY_SECONDS
    standing = Standing(
        cohorts,
        day,
        int(eligible.sum()),
        int((never & ~eligible).sum()),
        people.mean_age_months(eligible, day),
    )
    words = f"the median of the last {len(by_month)} months, by first ratings in the source of {day}"
    return Basis(standing, Newcomers(rate, people.mean_age_months(recent, day), mean_loss(cohorts)), words)


@dataclass(frozen=True)
class People:
    """Hold everybody in a source: number of ratings, the first one's time and the sum of all times, if it has any."""

    ids: pa.Array
    ratings: np.ndarray
    first: np.ndarray | None
    seconds: np.ndarray | None

    def mean_age_months(self, chosen: np.ndarray, day: datetime.date) -> float | None:
        """Return the mean age of the ratings of some people (a mask)."""
        if self.seconds is None or not chosen.any():
            return None
        mean = self.seconds[chosen].sum() / self.ratings[chosen].sum()
        return max(0.0, float(end_of(day) - mean) / DAY_SECONDS / DAYS_PER_MONTH)


def read_people(source: Source, day: datetime.date) -> People:
    """Read a source block by block; only one row per person is kept."""
    found: list[pa.Table] = []
    for piece in formats.pieces(source, day):
        for block in formats.read(piece, source, day):
            if len(block.ratings):
                found.append(_by_person(block))
    if not found:
        raise formats.no_ratings(source, day)
    has_times = all("time" in table.column_names for table in found)
    wanted = ["user", "ratings", *(["time", "seconds"] if has_times else [])]
    merged = pa.concat_tables([table.select(wanted) for table in found]).group_by("user")
    sums = [("ratings", "sum"), *([("time", "min"), ("seconds", "sum")] if has_times else [])]
    whole = merged.aggregate(sums).sort_by("user")
    return People(
        ids=whole["user"].combine_chunks(),
        ratings=whole["ratings_sum"].to_numpy(),
        first=whole["time_min"].to_numpy() if has_times else None,
        seconds=whole["seconds_sum"].to_numpy() if has_times else None,
    )


def _by_person(block: formats.RatingBlock) -> pa.Table:
    columns = {"user": pc.cast(block.users, pa.string()), "ratings": np.ones(len(block.ratings), np.int64)}
    if block.timestamps is None:
        return (
            pa.table(columns)
            .group_by("user")
            .aggregate([("ratings", "sum")])
            .rename_columns(["user", "ratings"])
        )
    times = np.asarray(block.timestamps)
    table = pa.table({**columns, "time": times, "seconds": times.astype(np.float64)})
    sums = [("ratings", "sum"), ("time", "min"), ("seconds", "sum")]
    return table.group_by("user").aggregate(sums).rename_columns(["user", "ratings", "time", "seconds"])


def per_month(first: np.ndarray, day: datetime.date) -> np.ndarray:
    """Return how many people rated first in each of the last months, oldest first; a month that began earlier than
    the data is left out, unless it is the only one."""
    ago = (end_of(day) - np.asarray(first, np.float64)) / DAY_SECONDS / DAYS_PER_MONTH
    months = int(min(MONTHS_COUNTED, max(1, np.floor(ago.max(initial=0.0)))))
    counts = np.bincount(np.floor(ago[(ago >= 0) & (ago < months)]).astype(np.int64), minlength=months)
    return counts[::-1]
