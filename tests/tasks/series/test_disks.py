"""Test what disks do to ledger, publication and erasure: full, read-only, and files that a power failure has cut off.

tests/simulation tries power failures at every place; here are the cases that it found, each by itself.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from tasks.errors import DiskFull, Refused, UsageError
from tasks.series import publication
from tasks.series.erasure import erase
from tasks.series.ledger import Ledger
from tasks.store import Store
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate
from tests.tasks.series.small_series import NAME, SmallSeries, people
from tests.tasks.series.small_series import POPULATION as SMALL

JANUARY = "2026-01-01"


@pytest.fixture(autouse=True)
def _sqlite(monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)


@pytest.mark.parametrize(
    ("pragma", "error", "words"),
    [
        ("max_page_count = 1", DiskFull, "no space left"),  # SQLite then says that the disk is full
        ("query_only = 1", UsageError, "the file system is read-only"),
    ],
)
def test_the_disk_is_named(tmp_path, pragma, error, words):
    def write(ledger):
        with ledger._database.writing() as db:
            db.exec_driver_sql(f"PRAGMA {pragma}")
            db.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(1000000)")

    with pytest.raises(error, match=words), Ledger.open(Store(tmp_path), POPULATION) as ledger:
        write(ledger)


def test_other_errors_of_the_database_stay_what_they_are(tmp_path):
    with (
        pytest.raises(sa.exc.OperationalError, match="no such table"),
        Ledger.open(Store(tmp_path), POPULATION) as ledger,
        ledger._database.reading() as db,
    ):
        db.exec_driver_sql("SELECT * FROM missing")


def test_a_release_is_opened_when_its_place_is_durable(tmp_path, monkeypatch):
    """Until then other accounts cannot read it; recovery opens it, too."""
    store, seen = Store(tmp_path / "store"), {}
    published = store.root / "published" / "films" / JANUARY

    def look(path, **_):
        if path == published.parent:
            seen[path] = published.stat().st_mode & 0o777

    monkeypatch.setattr(publication, "sync_path", look)
    place = make_candidate(tmp_path / "january", store, JANUARY, ["ann", "bob"], items=["x"])
    publish_candidate(place, store, JANUARY)
    assert seen == {published.parent: 0o700}
    assert published.stat().st_mode & 0o777 == 0o755


def test_a_candidate_made_again_meanwhile_is_not_published_without_the_ledger(tmp_path, monkeypatch):
    """Whether it has an entry was looked up before this run waited for the lock."""
    store = Store(tmp_path / "store")
    place = make_candidate(tmp_path / "january", store, JANUARY, ["ann", "bob"], items=["x"])
    answers = iter([False])
    real = publication.has_entry
    monkeypatch.setattr(publication, "has_entry", lambda place: next(answers, None) is None and real(place))
    with pytest.raises(Refused, match="made again meanwhile"):
        publish_candidate(place, store, JANUARY)
    assert not (store.root / "published" / "films" / JANUARY).exists()


def test_an_erasure_removes_what_was_cut_off(tmp_path):
    """Nobody can say whose ids a table holds that a crash cut off; a damaged file in its place is left for a repair."""
    series = SmallSeries(tmp_path)
    series.publish(JANUARY, people(0, 6))
    private = series.private(JANUARY)
    series.add_work(JANUARY, people(20, 3))
    users = pa.table({"user": people(0, 500)})
    for file in (
        private / "work" / "ingest" / "cut.parquet",
        private / ".membership.parquet",
        private / "curve.json",
    ):
        pq.write_table(users, file)
        file.write_bytes(file.read_bytes()[:-20])
    erase(series.store, SMALL, NAME, series.maker(), ids=people(0, 1))
    assert not (private / "work" / "ingest" / "cut.parquet").exists()
    assert not (private / ".membership.parquet").exists()
    assert (private / "curve.json").exists()
