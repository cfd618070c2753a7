"""Test who is released at a snapshot: carried-over groups, newcomers, people who wait."""

import datetime
from types import SimpleNamespace

import numpy as np
import pytest

from tasks.data.ratings import Side
from tasks.series.cohort import SeriesParams, _strata, due_before, merge_small_strata


def params(**changed):
    given = {
        "population": "p",
        "release": "r",
        "k": 2,
        "min_contributors": 3,
        "min_cohort": 4,
        "waiting_days": 0,
        "min_ratings": 1,
        "departure": "keep",
        "pools": True,
        "prior_rank": 2,
        "schedule": "0 3 1 * *",
        "start_date": datetime.date(2026, 1, 1),
    }
    return SeriesParams(**given | changed)


@pytest.mark.parametrize(
    ("strata", "expected"),
    [
        ([0, 0, 1, 1], [0, 0, 1, 1]),
        ([0, 1, 1, 2, 2], [0, 0, 0, 1, 1]),  # one person of the first joins the second
        ([0, 0, 1, 1, 2], [0, 0, 1, 1, 1]),  # one person of the last joins the one before
        ([3, 3, 7, 7], [0, 0, 1, 1]),
        ([5], [0]),
    ],
)
def test_small_strata_join_the_next(strata, expected):
    assert merge_small_strata(np.array(strata), 2).tolist() == expected


def test_due_snapshots_follow_the_schedule():
    days = due_before(params(), datetime.date(2026, 4, 1))
    assert days == [datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), datetime.date(2026, 3, 1)]
    assert due_before(params(schedule="@monthly"), datetime.date(2026, 2, 15)) == days[:2]
    assert due_before(params(schedule=None), datetime.date(2026, 4, 1)) == []
    assert due_before(params(schedule="@once"), datetime.date(2026, 4, 1)) == []


def test_a_person_who_came_on_the_day_of_a_snapshot_belongs_to_the_next_stratum():
    """Sources may end before the day; a person who is missing there would break a group of the earlier stratum."""
    day, hours = datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC).timestamp(), 3600
    times = np.array([day - hours, day + hours, day + 48 * hours])
    side = Side(np.arange(4), np.zeros(3, np.int32), np.ones(3, np.float32), 1)
    ratings = SimpleNamespace(timestamps=times, by_user=side)
    found = _strata(
        params(min_cohort=1), ratings, np.ones(3, bool), datetime.date(2026, 3, 1), {"2026-01-01"}
    )
    assert found.tolist() == [0, 1, 1]
