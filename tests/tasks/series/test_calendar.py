"""Test the calendar of a release: what became of every snapshot, from schedule, ledger and the owner's files."""

import datetime
import json

import pytest

from tasks.cli import main
from tasks.config import parse
from tasks.errors import UsageError
from tasks.series.calendar import STATES, calendar, describe_calendar, expiring
from tasks.series.cohort import SeriesParams, due_before
from tasks.series.schedule import due_moments
from tasks.series.withdrawal import withdraw
from tasks.store import Store, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

NOW = datetime.datetime(2026, 6, 10, tzinfo=datetime.UTC)
ITEMS = ["i0", "i1"]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return Store(tmp_path / "store")


def config(**release):
    tables = {
        "release": {"name": "films", "schedule": "0 3 1 * *", **release},
        "source": {"format": "synthetic"},
        "privacy": {"k": 2},
        "series": {"population": POPULATION, "min_cohort": 4},
    }
    return parse(tables)


def publish(store, tmp_path, snapshot, people, items=()):
    made = make_candidate(tmp_path / f"made-{snapshot}", store, snapshot, people, items=items)
    publish_candidate(made, store, snapshot)


def states(found):
    return {one.snapshot.isoformat(): one.state for one in found}


def test_every_snapshot_has_the_state_that_its_files_show(store, tmp_path):
    publish(store, tmp_path, "2026-01-01", ["u1", "u2", "u3", "u4"], ITEMS)
    publish(store, tmp_path, "2026-02-01", ["u5", "u6", "u7", "u8"])
    withdraw(store, POPULATION, "films", "2026-02-01", "a column was wrong")
    own = store.root / "private" / "films"
    refused = {"passed": False, "failed": ["utility", "cohorts"], "attempts": 2}
    for day, verdict in (("2026-03-01", refused), ("2026-04-15", {"passed": True})):
        (own / day).mkdir()
        write_json(own / day / "verdict.json", verdict)
    (own / "2026-05-01" / "work").mkdir(parents=True)
    (own / "2026-07-01").mkdir()  # a lock file alone: nothing has begun
    found = calendar(config(), store, NOW, coming=2)
    assert states(found) == {
        "2026-01-01": "published",
        "2026-02-01": "withdrawn",
        "2026-03-01": "refused",
        "2026-04-01": "missing",
        "2026-04-15": "unfinished",
        "2026-05-01": "unfinished",
        "2026-06-01": "missing",
        "2026-07-01": "due",
        "2026-08-01": "due",
    }
    by_day = {one.snapshot.isoformat(): one for one in found}
    assert by_day["2026-02-01"].note == "a column was wrong"
    assert by_day["2026-03-01"].failed == ("utility", "cohorts")
    assert by_day["2026-03-01"].attempts == 2
    assert [day for day, one in by_day.items() if not one.scheduled] == ["2026-04-15"]
    awaiting = calendar(config(approval=True), store, NOW)
    assert states(awaiting)["2026-04-15"] == "approval"


def test_a_snapshot_is_due_until_the_hour_of_its_schedule_and_missing_after_it(store):
    first = datetime.date(2026, 6, 1)
    before, after = (datetime.datetime(2026, 6, 1, hour, tzinfo=datetime.UTC) for hour in (2, 4))
    assert states(calendar(config(start_date=first), store, before)) == {"2026-06-01": "due"}
    after_it = {"2026-06-01": "missing", "2026-07-01": "due"}
    assert states(calendar(config(start_date=first), store, after)) == after_it


def test_a_release_that_starts_later_has_nothing_missing(store):
    later = config(start_date=datetime.date(2026, 9, 15))
    assert states(calendar(later, store, NOW)) == {"2026-10-01": "due"}


def test_without_a_schedule_nothing_is_due_and_no_ledger_is_made(store):
    for schedule in (None, "@once"):
        assert calendar(config(schedule=schedule), store, NOW) == []
    assert not store.root.exists()


def test_the_counts_add_up(store, tmp_path):
    publish(store, tmp_path, "2026-01-01", ["u1", "u2", "u3", "u4"], ITEMS)
    answer = describe_calendar(config(), store, NOW)
    assert list(answer["counts"]) == list(STATES)
    assert answer["counts"]["published"] == 1
    assert sum(answer["counts"].values()) == len(answer["snapshots"]) == 7
    json.dumps(answer, allow_nan=False)


def test_a_schedule_of_every_minute_names_each_day_once(store):
    moments = due_moments("* * * * *", datetime.date(2026, 1, 1))
    assert [next(moments).date().day for _ in range(3)] == [1, 2, 3]
    often = config(schedule="*/5 * * * *", start_date=datetime.date(2026, 6, 8))
    assert states(calendar(often, store, NOW)) == {
        **dict.fromkeys(["2026-06-08", "2026-06-09", "2026-06-10"], "missing"),
        "2026-06-11": "due",
    }


def test_a_schedule_that_names_no_day_is_refused_with_its_key():
    with pytest.raises(UsageError, match="names no day") as refused:
        next(due_moments("0 0 30 2 *", datetime.date(2026, 1, 1)))
    assert refused.value.where == "release.schedule"


def test_the_snapshots_due_before_one_follow_the_schedule():
    params = SeriesParams.of(config())
    assert params is not None
    assert due_before(params, datetime.date(2026, 3, 1)) == [
        datetime.date(2026, 1, 1),
        datetime.date(2026, 2, 1),
    ]


def test_the_command_prints_all_release_files_and_names_those_that_cannot_be_used(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["calendar"]) == 2
    assert "murmur init" in capsys.readouterr().err
    releases = tmp_path / "dags" / "releases"
    releases.mkdir(parents=True)
    text = '[release]\nname = "films"\nschedule = "0 3 1 * *"\n[source]\nformat = "synthetic"\n'
    (releases / "films.toml").write_text(text)
    (releases / "broken.toml").write_text("[release]\n")
    assert main(["calendar", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["release"] for one in answer["calendars"]] == ["films"]
    assert answer["calendars"][0]["counts"]["due"] == 1
    assert "broken.toml" in answer["unusable"][0]["where"]
    assert main(["calendar", str(releases / "films.toml")]) == 0
    out = capsys.readouterr().out
    assert "not due yet" in out
    assert max(map(len, out.splitlines())) <= 80


def test_every_missing_snapshot_is_found_before_the_source_deletes_it(store):
    """By a look once a day at 6:30, whatever the hour of the schedule, with the shortest times that are allowed."""
    for hour in (0, 5, 7, 23):
        for source_days, warning_days in ((2, 1), (3, 1), (9, 7), (30, 7)):
            watched = watching(
                f"59 {hour} * * *", source_days, warning_days, start_date=datetime.date(2026, 5, 1)
            )
            found: dict[str, list[datetime.timedelta]] = {}
            for day in range(40):
                now = datetime.datetime(2026, 5, 1, 6, 30, tzinfo=datetime.UTC) + datetime.timedelta(days=day)
                for one, left in expiring(watched, store, now):
                    found.setdefault(one.snapshot.isoformat(), []).append(left)
            due = [f"2026-05-{day:02}" for day in range(1, 10)]
            assert set(due) <= found.keys()
            for times in found.values():
                assert all(
                    datetime.timedelta() < left <= datetime.timedelta(days=warning_days) for left in times
                )
                assert len(times) <= warning_days


def watching(schedule, source_days, warning_days, **release):
    tables = {
        "release": {"name": "films", "schedule": schedule, **release},
        "source": {"format": "synthetic"},
        "privacy": {"k": 2},
        "series": {"population": POPULATION, "min_cohort": 4},
        "alerts": {"source_days": source_days, "warning_days": warning_days},
    }
    return parse(tables)


def test_only_missing_snapshots_expire(store, tmp_path):
    """Published, withdrawn and refused ones do not; one that was begun and has no verdict does."""
    publish(store, tmp_path, "2026-01-01", ["u1", "u2", "u3", "u4"], ITEMS)
    publish(store, tmp_path, "2026-02-01", ["u5", "u6", "u7", "u8"])
    withdraw(store, POPULATION, "films", "2026-02-01", "a column was wrong")
    own = store.root / "private" / "films"
    (own / "2026-03-01").mkdir()
    write_json(own / "2026-03-01" / "verdict.json", {"passed": False, "failed": ["utility"]})
    (own / "2026-04-01" / "work").mkdir(parents=True)
    watched = watching("0 3 1 * *", 160, 160)
    found = expiring(watched, store, NOW)
    assert [day.snapshot.isoformat() for day, _ in found] == ["2026-04-01", "2026-05-01", "2026-06-01"]
    assert found[0][1] == datetime.datetime(2026, 9, 8, tzinfo=datetime.UTC) - NOW
    days = {one.snapshot.isoformat(): one for one in calendar(watched, store, NOW)}
    assert days["2026-05-01"].note == "the source deletes it on 2026-10-08"
    assert days["2026-01-01"].note == ""
    assert days["2026-01-01"].to_json()["source_until"] == "2026-06-10"
    late = datetime.datetime(2026, 10, 8, tzinfo=datetime.UTC)
    days = {one.snapshot.isoformat(): one for one in calendar(watched, store, late)}
    assert days["2026-05-01"].note == "the source deleted it on 2026-10-08"
    assert "2026-05-01" not in [day.snapshot.isoformat() for day, _ in expiring(watched, store, late)]
    assert expiring(config(), store, NOW) == []  # a source that deletes nothing
    json.dumps(describe_calendar(watched, store, NOW), allow_nan=False)


def test_a_source_that_deletes_on_the_same_day_is_refused():
    with pytest.raises(UsageError, match=r"alerts\.source_days"):
        watching("0 3 1 * *", 1, 7)
