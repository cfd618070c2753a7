"""Test the outlook of a series on cases that are worked out by hand: one person a day comes."""

import datetime

import pytest

from tasks.series.outlook import (
    DAYS_PER_MONTH,
    Cohort,
    ComingRelease,
    Newcomers,
    Standing,
    advise,
    coming_snapshots,
    extrapolate,
    mean_age,
    mean_loss,
)

JANUARY, FEBRUARY, MARCH, APRIL = (datetime.date(2026, month, 1) for month in (1, 2, 3, 4))
DAILY = Newcomers(per_month=DAYS_PER_MONTH, age_months=1.0, loss=0.4)  # one person a day


def months(days):
    return days / 30.4375


@pytest.fixture
def coming():
    """A hundred people were released in January; a cohort needs fifty."""
    standing = Standing((Cohort(JANUARY, 100, age_months=2.0, loss=0.2),), JANUARY, backlog=0, others=3)
    return extrapolate(standing, DAILY, [FEBRUARY, MARCH, APRIL], min_cohort=50)


def test_newcomers_wait_for_a_cohort(coming):
    """31 people come until February, too few; with the 28 of the next month they are 59."""
    assert [round(one.newcomers, 6) for one in coming] == [31, 28, 31]
    assert [round(one.cohort, 6) for one in coming] == [0, 59, 0]
    assert [round(one.released, 6) for one in coming] == [100, 159, 159]
    assert [round(one.waiting, 6) for one in coming] == [34, 3, 34]  # three are not eligible
    assert [round(one.share, 6) for one in coming] == [round(100 / 131, 6), 1, round(159 / 190, 6)]


def test_profiles_age(coming):
    first, second, third = (one.age_months for one in coming)
    assert first == pytest.approx(2 + months(31))
    assert second == pytest.approx((100 * (2 + months(59)) + 59 * 1) / 159)
    assert third == pytest.approx((100 * (2 + months(90)) + 59 * (1 + months(31))) / 159)


def test_loss_is_weighted_by_people(coming):
    assert [round(one.loss, 6) for one in coming] == [
        0.2,
        *[round((100 * 0.2 + 59 * 0.4) / 159, 6)] * 2,
    ]


def test_first_release():
    """Everybody in the source enters on the day of the count; their ratings are older than newcomers' later."""
    standing = Standing((), JANUARY, backlog=80, backlog_age_months=10.0)
    first, second = extrapolate(
        standing, Newcomers(2 * DAYS_PER_MONTH, age_months=1.0), [JANUARY, FEBRUARY], min_cohort=50
    )
    assert (first.newcomers, first.cohort, first.waiting, first.age_months) == (80, 80, 0, 10.0)
    assert second.cohort == pytest.approx(62)
    assert second.age_months == pytest.approx((80 * (10 + months(31)) + 62 * 1) / 142)
    assert (first.loss, second.loss) == (None, None)


def test_nobody_is_released_yet():
    standing = Standing((), JANUARY, backlog=10)
    (one,) = extrapolate(standing, DAILY, [JANUARY], min_cohort=50)
    assert (one.cohort, one.released, one.share, one.age_months) == (0, 0, 0, None)
    assert one.to_json() == {
        "snapshot": "2026-01-01",
        "newcomers": 10,
        "forms_cohort": False,
        "cohort": 0,
        "released": 0,
        "share_of_eligible": 0.0,
        "waiting": 10,
        "age_months": None,
        "loss": None,
    }
    (one,) = extrapolate(Standing((), JANUARY, backlog=0), Newcomers(0.0), [FEBRUARY], min_cohort=50)
    assert one.share is None


def test_unknown_figures():
    """Without times age counts from the release on; cohorts without a measured loss are left out of the mean."""
    cohorts = [Cohort(JANUARY, 10), Cohort(JANUARY, 30, age_months=4.0, loss=0.5)]
    assert mean_age(cohorts, JANUARY) == pytest.approx(3.0)
    assert mean_loss(cohorts) == pytest.approx(0.5)
    assert mean_age([], JANUARY) is None
    assert mean_loss(cohorts[:1]) is None


def release(day, released, age):
    return ComingRelease(day, 0, 0, released, released, 0, age, None)


@pytest.mark.parametrize(
    ("ages", "per_month", "start", "why"),
    [
        # 1,000 released: a quarter is 250 people, 20.83 a month.
        ((20, 25, 26), 21, FEBRUARY, "25.0 months old"),
        ((20, 25, 26), 20, None, "only 240 people come in a year, and a new population needs 250"),
        ((20, 21, 22), 100, None, "do not become older than 24 months on average; they reach 22.0"),
        ((None, None, None), 100, None, "do not become older"),
    ],
)
def test_new_population(ages, per_month, start, why):
    coming = [release(day, 1000, age) for day, age in zip((JANUARY, FEBRUARY, MARCH), ages, strict=True)]
    advice = advise(coming, Newcomers(per_month), min_cohort=50)
    assert advice.snapshot == start
    assert why in advice.why


def test_new_population_needs_a_cohort():
    """Of 100 people a quarter is 25, and 36 come in a year, but a cohort needs 50."""
    coming = [release(JANUARY, 100, 30.0)]
    assert advise(coming, Newcomers(3.0), min_cohort=50).snapshot is None
    assert advise(coming, Newcomers(3.0), min_cohort=30).snapshot == JANUARY
    assert advise(coming, Newcomers(3.0), min_cohort=30, max_age_months=31).snapshot is None


def test_coming_snapshots():
    assert coming_snapshots("0 3 1 * *", JANUARY, 2, after=None) == [JANUARY, FEBRUARY]
    assert coming_snapshots("0 3 1 * *", JANUARY, 2, after=JANUARY) == [FEBRUARY, MARCH]
    assert coming_snapshots("@hourly", JANUARY, 2, after=None) == [JANUARY, datetime.date(2026, 1, 2)]
    last = datetime.date(2026, 1, 31)
    assert coming_snapshots(None, last, 2, after=None) == [
        datetime.date(2026, 2, 28),
        datetime.date(2026, 3, 28),
    ]
