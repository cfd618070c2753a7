"""Extrapolate a series: who is released, who waits, how old the ratings become, and what is lost (docs/commands.md).

Pure arithmetic over what has been measured so far (tasks/series/standing.py): a person enters once, with the cohort
that is formed first after the person came, and a cohort's profiles never change. So the age of the ratings behind them
grows with time, and the loss of a cohort is for ever the one measured at its release.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from tasks.series.schedule import due_moments, repeats

DAYS_PER_MONTH = 365.25 / 12
MAX_AGE_MONTHS = 24.0  # from which mean age of the ratings on a new population is considered
FRESH_SHARE = (
    0.25  # of the released people, whom the newcomers of a year must reach to be worth a new population
)


@dataclass(frozen=True)
class Cohort:
    """Represent the people of one release who entered with it.

    `age_months` is the mean age of their ratings at that snapshot, `loss` the measured one; None: not known.
    """

    snapshot: datetime.date
    people: float
    age_months: float | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Standing:
    """Hold where a series stands: its cohorts, and who waits on the day `measured`.

    `backlog` are eligible people, who enter with the next cohort; `others` are not eligible yet, or never. The ratings
    of the backlog may be older than those of later newcomers: before a first release it is everybody in the source.
    """

    cohorts: tuple[Cohort, ...]
    measured: datetime.date
    backlog: float
    others: int = 0
    backlog_age_months: float | None = None

    @property
    def released(self) -> float:
        """Return how many people are released."""
        return sum(cohort.people for cohort in self.cohorts)


@dataclass(frozen=True)
class Newcomers:
    """Hold what is expected of people who come: how many a month, and age and loss of their cohorts (None: unknown)."""

    per_month: float
    age_months: float | None = None
    loss: float | None = None


@dataclass(frozen=True)
class ComingRelease:
    """Represent one coming release, as expected; numbers of people are expected values."""

    snapshot: datetime.date
    newcomers: float
    cohort: float  # 0: too few people, who wait
    released: float
    eligible: float
    waiting: float
    age_months: float | None
    loss: float | None

    @property
    def share(self) -> float | None:
        """Return the share of the eligible people who are released."""
        return self.released / self.eligible if self.eligible else None

    def to_json(self) -> dict[str, Any]:
        """Return the row of `murmur plan --releases`; people are whole."""
        return {
            "snapshot": self.snapshot.isoformat(),
            "newcomers": round(self.newcomers),
            "forms_cohort": self.cohort > 0,
            "cohort": round(self.cohort),
            "released": round(self.released),
            "share_of_eligible": _rounded(self.share, 4),
            "waiting": round(self.waiting),
            "age_months": _rounded(self.age_months, 1),
            "loss": _rounded(self.loss, 3),
        }


def extrapolate(
    standing: Standing, newcomers: Newcomers, snapshots: Sequence[datetime.date], min_cohort: int
) -> list[ComingRelease]:
    """Return what to expect of the coming releases.

    People come evenly, `newcomers.per_month`. Where a release is due on the very day on which the backlog was counted,
    its newcomers are the backlog.
    """
    cohorts, backlog, age = list(standing.cohorts), standing.backlog, standing.backlog_age_months
    coming: list[ComingRelease] = []
    for before, snapshot in pairwise([standing.measured, *snapshots]):
        arrived = newcomers.per_month * months_between(before, snapshot)
        is_counted = not coming and snapshot == standing.measured
        backlog += arrived
        entered = backlog if backlog >= min_cohort else 0.0
        if entered:
            cohorts.append(
                Cohort(snapshot, entered, newcomers.age_months if age is None else age, newcomers.loss)
            )
            backlog, age = 0.0, None
        released = sum(cohort.people for cohort in cohorts)
        coming.append(
            ComingRelease(
                snapshot=snapshot,
                newcomers=standing.backlog if is_counted else arrived,
                cohort=entered,
                released=released,
                eligible=released + backlog,
                waiting=backlog + standing.others,
                age_months=mean_age(cohorts, snapshot),
                loss=mean_loss(cohorts),
            )
        )
    return coming


def mean_age(cohorts: Sequence[Cohort], day: datetime.date) -> float | None:
    """Return the mean age of the ratings behind the profiles on a day, in months, weighted by people.

    A cohort whose ratings had no times counts from its release on: its age is then a lower bound.
    """
    people = sum(cohort.people for cohort in cohorts)
    ages = [(months_between(one.snapshot, day) + (one.age_months or 0.0), one.people) for one in cohorts]
    return sum(age * weight for age, weight in ages) / people if people else None


def mean_loss(cohorts: Sequence[Cohort]) -> float | None:
    """Return the mean loss of the cohorts for which it is known, weighted by people."""
    known = [(one.loss, one.people) for one in cohorts if one.loss is not None and one.people]
    people = sum(weight for _, weight in known)
    return sum(loss * weight for loss, weight in known) / people if people else None


@dataclass(frozen=True)
class Advice:
    """Hold when a new population is worthwhile: the coming release to start it with, None: none of them; and why."""

    snapshot: datetime.date | None
    why: str


def advise(
    coming: Sequence[ComingRelease],
    newcomers: Newcomers,
    min_cohort: int,
    max_age_months: float = MAX_AGE_MONTHS,
) -> Advice:
    """Return the first coming release instead of which a new population should be started.

    A new population can only hold people who were never released: nobody's profile is ever renewed, in no population.
    So it is worthwhile when the ratings behind the profiles are older than `max_age_months` on average *and* the people
    who will come in the year after are at least FRESH_SHARE of those released, and a cohort.
    """
    a_year = 12 * newcomers.per_month
    old = [one for one in coming if one.age_months is not None and one.age_months > max_age_months]
    if not old:
        ages = [one.age_months for one in coming if one.age_months is not None]
        reached = f"; they reach {ages[-1]:.1f}" if ages else ""
        return Advice(
            None, f"the ratings do not become older than {max_age_months:g} months on average{reached}"
        )
    for one in old:
        wanted = max(FRESH_SHARE * one.released, min_cohort)
        if a_year >= wanted:
            return Advice(
                one.snapshot,
                f"the ratings are then {one.age_months:.1f} months old on average (limit {max_age_months:g}), and "
                f"{a_year:,.0f} people who were never released come in a year (needed: {wanted:,.0f})",
            )
    wanted = max(FRESH_SHARE * old[0].released, min_cohort)
    return Advice(
        None,
        f"the ratings are older than {max_age_months:g} months from {old[0].snapshot} on, but only {a_year:,.0f} "
        f"people come in a year, and a new population needs {wanted:,.0f} who were never released",
    )


def months_between(first: datetime.date, last: datetime.date) -> float:
    """Return the months from one day to another; a month is a twelfth of 365.25 days."""
    return (last - first).days / DAYS_PER_MONTH


def coming_snapshots(
    schedule: str | None, since: datetime.date, count: int, *, after: datetime.date | None
) -> list[datetime.date]:
    """Return the next snapshots that are due from `since` on and after the day `after`.

    Without a schedule that repeats, one a month is assumed, from `since` on.
    """
    every = f"0 0 {min(since.day, 28)} * *" if schedule is None or not repeats(schedule) else schedule
    days = (moment.date() for moment in due_moments(every, since))
    return list(islice((day for day in days if after is None or day > after), count))


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
