"""Test publication and erasure with the ledger in PostgreSQL: races, and an erasure with a repaired release.

MURMUR_FAULT_RACES=50 repeats each race fifty times (three times by default). A race *without the lock file* is one of
two machines: only the database keeps publishers apart.
"""

import contextlib
import os
import shutil

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from checks.gate import verify
from tasks.errors import MurmurError
from tasks.series import publication, schema
from tasks.series.erasure import erase, resume
from tasks.series.ledger import Ledger
from tasks.series.publication import exclusive
from tasks.store import Store, read_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate
from tests.tasks.series.small_series import NAME, SmallSeries, people
from tests.tasks.series.small_series import POPULATION as SMALL
from tests.tasks.series.test_publication import FEBRUARY, JANUARY, _all_is_well, _child

pytestmark = [pytest.mark.stack, pytest.mark.slow]

RACES = int(os.environ.get("MURMUR_FAULT_RACES", "3"))
VICTIM = "canary-0004"


def race(report, *works):
    """Run functions at once, each in a process of its own; return their exit codes (0, 3: refused)."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            _child(work, report)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


@pytest.mark.parametrize("lock_file", [True, False], ids=["one machine", "without the lock file"])
def test_two_publishers_at_once(tmp_path, use_postgres, monkeypatch, lock_file):
    """Two candidates planned against the same head, for one snapshot or for two: exactly one wins."""
    report = tmp_path / "report"
    if not lock_file:
        monkeypatch.setattr(publication, "_locked", lambda store: contextlib.nullcontext())
    for number in range(RACES):
        use_postgres()
        store, place = Store(tmp_path / f"store{number}"), tmp_path / f"made{number}"
        first = make_candidate(place / "0", store, JANUARY, ["ann", "bob", "cid", "dan"], items=["x", "y"])
        publish_candidate(first, store, JANUARY)
        other = FEBRUARY if number % 2 else "2026-03-01"
        one = make_candidate(place / "1", store, FEBRUARY, ["eve", "fay"], code=2)
        two = make_candidate(place / "2", store, other, ["eve", "gus"], code=3)
        codes = race(
            report,
            lambda one=one, store=store: publish_candidate(one, store, FEBRUARY),
            lambda two=two, store=store, other=other: publish_candidate(two, store, other),
        )
        assert sorted(codes) == [0, 3], report.read_text()
        assert _all_is_well(store, (FEBRUARY, other)[codes.index(0)], released=True)
        shutil.rmtree(store.root)


def test_the_same_candidate_twice_at_once(tmp_path, use_postgres):
    """A cleared task beside its successor: both succeed, and the release is entered once."""
    for number in range(RACES):
        use_postgres()
        store, place = Store(tmp_path / f"store{number}"), tmp_path / f"made{number}"
        first = make_candidate(place / "0", store, JANUARY, ["ann", "bob", "cid", "dan"], items=["x", "y"])
        publish_candidate(first, store, JANUARY)
        again = make_candidate(place / "1", store, FEBRUARY, ["eve", "fay"])
        work = lambda again=again, store=store: publish_candidate(again, store, FEBRUARY)  # noqa: E731
        assert race(tmp_path / "report", work, work) == [0, 0]
        assert _all_is_well(store, FEBRUARY, released=True)
        shutil.rmtree(store.root)


def take_out(series):
    return erase(series.store, SMALL, NAME, series.maker(lambda made: verify(made).failed), ids={VICTIM})


def rows_with(engine, token):
    """Return the tables that hold a token."""
    tables = [table for table in schema.metadata.sorted_tables if "token" in table.c]
    with engine.begin() as db:
        found = {
            table.name: db.scalar(
                sa.text(f'SELECT count(*) FROM "ledger_{SMALL}"."{table.name}" WHERE token = :token'),
                {"token": token},
            )
            for table in tables
        }
    return sorted(name for name, number in found.items() if number)


def test_erasure_with_a_repaired_release(tmp_path, use_postgres):
    engine = use_postgres()
    series = SmallSeries(tmp_path)
    series.publish(JANUARY, people(0, 9))
    series.publish(FEBRUARY, people(9, 6))
    with series.ledger() as ledger:
        token = ledger.tokens([VICTIM])[0]
    assert rows_with(engine, token) == ["persons"]
    take_out(series)
    assert rows_with(engine, token) == ["blocked"]
    for day, left in ((JANUARY, 6), (FEBRUARY, 12)):
        assert [file.name for file in series.public(day).iterdir()] == ["tombstone.json"]
        repaired = series.public(f"{day}-r1")
        assert verify(repaired).passed
        assert read_json(repaired / "manifest.json")["counts"]["users"] == left
        users = pq.read_table(series.private(f"{day}-r1") / "membership.parquet")["user"].to_pylist()
        assert VICTIM not in users
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []
        assert ledger.erasures() == 1
        with ledger._database.reading() as db:
            assert db.scalar(sa.select(sa.func.count()).select_from(schema.versions)) == 14
        assert [one.state for one in ledger.groups(state=None)].count("withdrawn") == 1
        assert sorted(ledger.people()[2]).count("survivor") == 2
    with pytest.raises(MurmurError, match="1 erased people would be released again"):
        series.publish("2026-03-01", [VICTIM, *people(30, 2)])


def test_erasure_beside_a_publication(tmp_path, use_postgres):
    """Whoever comes second finds a ledger that has moved: the publication is refused, or it is repaired, too."""
    for number in range(RACES):
        use_postgres()
        series = SmallSeries(tmp_path / str(number))
        series.publish(JANUARY, people(0, 9))
        series.make(FEBRUARY, people(9, 6))
        works = [lambda series=series: take_out(series), lambda series=series: series.put(FEBRUARY)]
        first = 1 if number % 2 else -1  # who starts first mostly comes first
        erased, put = race(tmp_path / "report", *works[::first])[::first]
        assert erased == 0, (tmp_path / "report").read_text()
        assert put in (0, 3), (tmp_path / "report").read_text()
        with exclusive(series.store, SMALL) as ledger:
            assert resume(ledger, series.store, series.maker()) == []
        with Ledger.open(series.store, POPULATION) as ledger:
            assert ledger.problems(series.store) == []
            assert ledger.pending() == []
            assert ledger.erasures() == 1
            offered = [one for one in ledger.releases() if one.state == "published"]
        for one in offered:
            owner = pq.read_table(series.private(one.directory) / "membership.parquet")
            assert VICTIM not in owner["user"].to_pylist()
        shutil.rmtree(series.store.root)
