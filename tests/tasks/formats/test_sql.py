"""Test ratings from a database: the contract of formats on SQLite, streaming from PostgreSQL, what errors may say."""

import datetime
import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import ClassVar

import pytest

from tasks import formats
from tasks.config import Source, parse
from tasks.errors import UsageError
from tests.conftest import SNAPSHOT
from tests.contracts import FormatContract
from tests.contracts.formats import rows_of

QUERY = "SELECT user, item, rating, timestamp FROM ratings"
ROWS = [("ann", "film", 2.5, 100), ("bob", "film", 4.0, 200), ("ann", "song", 0.0, 300)]


def database(path, rows=ROWS):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE ratings (user, item, rating, timestamp)")
        db.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", rows)
    return path


def changed(path, statement):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def source_of(path, query=QUERY, **sql):
    return Source(format="sql", scale=(0, 5), sql={"url": f"sqlite:///{path}", "query": query, **sql})


class TestSql(FormatContract):
    name = "sql"
    rows: ClassVar = ROWS

    def write(self, place):
        return database(place / "ratings.db")

    def change(self, path):
        changed(path, "UPDATE ratings SET rating = 3 WHERE user = 'bob'")

    @pytest.fixture
    def source(self, path):
        return source_of(path)


class TestState:
    def test_order_is_no_change(self, tmp_path):
        one, other = (database(tmp_path / name, rows) for name, rows in (("a", ROWS), ("b", ROWS[::-1])))
        assert formats.state(source_of(one), SNAPSHOT) == formats.state(source_of(other), SNAPSHOT)

    @pytest.mark.parametrize(
        "rows",
        [
            ROWS[:2],
            [*ROWS, ROWS[0]],
            [("annf", "ilm", 2.5, 100), *ROWS[1:]],
            [("ann", "film", 2.5, None), *ROWS[1:]],
        ],
        ids=["fewer", "twice", "a character moved between columns", "no time"],
    )
    def test_every_change_shows(self, rows, tmp_path):
        one, other = database(tmp_path / "a"), database(tmp_path / "b", rows)
        assert formats.state(source_of(one), SNAPSHOT) != formats.state(source_of(other), SNAPSHOT)

    def test_version_query_replaces_reading_all_rows(self, tmp_path):
        path = database(tmp_path / "a")
        source = source_of(path, query="SELECT nothing FROM nowhere", version="SELECT count(*) FROM ratings")
        before = formats.state(source, SNAPSHOT)
        changed(path, "DELETE FROM ratings WHERE user = 'bob'")
        assert formats.state(source, SNAPSHOT) != before

    def test_version_must_be_one_row(self, tmp_path):
        source = source_of(database(tmp_path / "a"), version="SELECT rating FROM ratings")
        with pytest.raises(UsageError, match="gave 3 rows"):
            formats.state(source, SNAPSHOT)

    def test_content_is_not_claimed(self, tmp_path):
        assert formats.content(source_of(database(tmp_path / "a")), SNAPSHOT) is None


class TestQuery:
    def test_snapshot_is_a_parameter(self, tmp_path):
        path = database(
            tmp_path / "a", [("ann", "film", 2.5, "2026-01-01"), ("bob", "film", 4.0, "2026-02-01")]
        )
        source = source_of(path, query=f"{QUERY} WHERE timestamp < :snapshot")
        rows = rows_of(formats.read_all(source, datetime.date(2026, 1, 15)))
        assert [row[:3] for row in rows] == [("ann", "film", 2.5)]

    def test_columns_are_named_by_the_query(self, tmp_path):
        path = database(tmp_path / "a")
        with pytest.raises(UsageError, match="the columns are: who, item, rating") as refusal:
            rows_of(
                formats.read_all(
                    source_of(path, query="SELECT user who, item, rating FROM ratings"), SNAPSHOT
                )
            )
        assert "source.columns.user" in refusal.value.remedy

    def test_bad_rows_are_set_aside(self, tmp_path):
        path = database(tmp_path / "a", [*ROWS, ("eve", None, 1.0, 1), ("eve", "film", 9.0, 1)])
        blocks = list(formats.read_all(source_of(path), SNAPSHOT))
        assert rows_of(blocks) == ROWS
        assert sum(sum(block.rejected.values()) for block in blocks) == 2

    def test_nothing_is_written(self, tmp_path):
        path = database(tmp_path / "a")
        with pytest.raises(UsageError):
            rows_of(formats.read_all(source_of(path, query="DELETE FROM ratings RETURNING *"), SNAPSHOT))
        assert rows_of(formats.read_all(source_of(path), SNAPSHOT)) == ROWS

    def test_no_rows(self, tmp_path):
        with pytest.raises(UsageError, match="no ratings"):
            rows_of(formats.read_all(source_of(database(tmp_path / "a", [])), SNAPSHOT))


class TestRefusals:
    def test_password_in_the_release_file(self):
        sql = {"url": "postgresql://me:hush@host/db", "query": "x"}
        with pytest.raises(UsageError, match="must not hold a password") as refusal:
            parse(
                {"release": {"name": "r"}, "source": {"format": "sql", "scale": [1, 5], "sql": sql}}, "r.toml"
            )
        assert "hush" not in str(refusal.value)

    def test_table_is_missing(self):
        with pytest.raises(UsageError, match=r"needs the table \[source.sql\]"):
            parse({"release": {"name": "r"}, "source": {"format": "sql", "scale": [1, 5]}}, "r.toml")

    def test_unknown_driver(self):
        source = Source(format="sql", scale=(0, 5), sql={"url": "nosuch://host/db", "query": "SELECT 1"})
        with pytest.raises(UsageError, match="no driver"):
            formats.state(source, SNAPSHOT)

    def test_missing_table_is_named(self, tmp_path):
        with pytest.raises(UsageError, match="no such table: absent"):
            rows_of(
                formats.read_all(source_of(database(tmp_path / "a"), query="SELECT 1 FROM absent"), SNAPSHOT)
            )

    def test_ids_of_other_types(self, tmp_path):
        path = database(tmp_path / "a", [(b"\x01", "film", 1.0, 1)])
        with pytest.raises(UsageError, match="ids must be text or whole numbers"):
            rows_of(formats.read_all(source_of(path), SNAPSHOT))


@pytest.mark.stack
class TestPostgresql:
    @pytest.fixture
    def source(self, postgres):
        import sqlalchemy as sa

        engine = sa.create_engine(postgres, poolclass=sa.NullPool)
        with engine.begin() as db:
            db.execute(sa.text("DROP TABLE IF EXISTS shop_ratings"))
            db.execute(
                sa.text("CREATE TABLE shop_ratings (who text, what int, stars numeric(2,1), at timestamptz)")
            )
            db.execute(
                sa.text(
                    "INSERT INTO shop_ratings SELECT 'u' || (n % 100), n / 100, 1 + n % 5, "
                    "timestamptz '2026-01-01 00:00:00+00' + n * interval '1 second' FROM generate_series(0, 4999) n"
                )
            )
        sql = {"url": postgres.replace("+psycopg2", ""), "query": "SELECT * FROM shop_ratings ORDER BY at"}
        columns = {"user": "who", "item": "what", "rating": "stars", "timestamp": "at"}
        yield Source(format="sql", scale=(1, 5), sql=sql, columns=columns)
        with engine.begin() as db:
            db.execute(sa.text("DROP TABLE shop_ratings"))

    def test_rows_are_streamed(self, source):
        small = source.model_copy(update={"block_bytes": 2**16})
        blocks = list(formats.read_all(small, SNAPSHOT))
        assert len(blocks) == -(-5000 // (2**16 // 256))
        rows = rows_of(blocks)
        first = int(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp())
        assert rows == [
            (f"u{n % 100}", str(n // 100), float(Decimal(1 + n % 5)), first + n) for n in range(5000)
        ]

    def test_a_user_id_in_an_error_is_not_shown(self, source):
        bad = source.sql.model_copy(
            update={"query": "SELECT who::int AS who, what, stars, at FROM shop_ratings"}
        )
        with pytest.raises(UsageError, match="22P02") as refusal:
            rows_of(formats.read_all(source.model_copy(update={"sql": bad}), SNAPSHOT))
        assert "u0" not in str(refusal.value)

    def test_an_unknown_column_is_named(self, source):
        bad = source.sql.model_copy(update={"query": "SELECT nobody FROM shop_ratings"})
        with pytest.raises(UsageError, match='column "nobody" does not exist'):
            rows_of(formats.read_all(source.model_copy(update={"sql": bad}), SNAPSHOT))

    def test_nothing_is_written(self, source):
        bad = source.sql.model_copy(update={"version": "DELETE FROM shop_ratings RETURNING 1"})
        with pytest.raises(UsageError, match=r"read-only transaction|25006"):
            formats.state(source.model_copy(update={"sql": bad}), SNAPSHOT)
        assert len(rows_of(formats.read_all(source, SNAPSHOT))) == 5000
