"""Read ratings from a database through SQLAlchemy: [source.sql] has its address and a query.

A cursor of the server streams the rows, in one read-only transaction, so that one state of the database is read. A
database has no modification time. What shows whether results of an earlier read can be used again is the answer to
`source.sql.version`, else a digest of all rows.

Messages never quote what the database says about data: it may be a user id.
"""

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from tasks.config import Source
from tasks.config.formats import Format
from tasks.config.source import Sql
from tasks.errors import UsageError
from tasks.formats._blocks import Piece, RatingBlock, screen
from tasks.formats.csv import places
from tasks.formats.parquet import ids

FORMAT = Format(needs_path=False, table="sql")
_ROW_BYTES = 256  # about what a row takes as Python objects
_DIGEST_KEYS = ("murmuration rows", "murmuration-rows")  # of 16 bytes each, as pandas wants them
_TELLING = "42"  # class of SQLSTATE for mistakes in the query: its messages name tables and columns


def pieces(source: Source, snapshot: datetime.date) -> list[Piece]:
    """Return one piece: the rows of a query have no parts that can be read by themselves."""
    return [Piece()]


def read(piece: Piece, source: Source, snapshot: datetime.date) -> Iterator[RatingBlock]:
    """Yield the ratings of the query; a line is a row of its result."""
    row = 0
    for names, columns in _batches(source, snapshot):
        place = places(names, source, _where(source), "; name the columns in source.sql.query with AS")
        count = len(columns[0])
        yield screen(
            ids(columns[place.user], "source.columns.user", _where(source)),
            ids(columns[place.item], "source.columns.item", _where(source)),
            columns[place.rating],
            None if place.timestamp is None else columns[place.timestamp],
            line_of_row=np.arange(row + 1, row + 1 + count),
            source=source,
            lines=count,
        )
        row += count


def state(source: Source, snapshot: datetime.date) -> dict[str, str]:
    """Return what changes when the ratings do: the owner's version query, else a digest of all rows in any order."""
    sql = _settings(source)
    if sql.version is not None:
        with _transaction(source) as db:
            answer = db.execute(_statement(sql.version), _parameters(sql.version, snapshot)).all()
        if len(answer) != 1:
            raise UsageError(
                f"source.sql.version gave {len(answer)} rows",
                where=_where(source),
                remedy="give a query with one row, such as SELECT count(*), max(changed_at) FROM ratings",
            )
        return {"version": repr(tuple(map(str, answer[0])))}
    sums, rows = [0, 0], 0
    for _, columns in _batches(source, snapshot):
        text = _joined(columns)
        rows += len(text)
        for which, key in enumerate(_DIGEST_KEYS):
            hashed = pd.util.hash_array(text, hash_key=key, categorize=False)
            sums[which] = (sums[which] + int(hashed.sum(dtype=np.uint64))) % 2**64
    return {"rows": f"{rows}-{sums[0]:016x}{sums[1]:016x}"}


def _joined(columns: list[pa.Array]) -> np.ndarray:
    """Return each row as one text; lengths keep apart what the separator alone would not."""
    parts: list[Any] = []
    for column in columns:
        text = pc.fill_null(pc.cast(column, pa.string()), "\0")
        parts += [pc.cast(pc.binary_length(text), pa.string()), text]
    return pc.binary_join_element_wise(*parts, ":").to_numpy(zero_copy_only=False)


def _batches(source: Source, snapshot: datetime.date) -> Iterator[tuple[list[str], list[pa.Array]]]:
    """Yield (names, columns) of some rows at a time."""
    sql = _settings(source)
    at_once = max(1, source.block_bytes // _ROW_BYTES)
    with _transaction(source) as db:
        streamed = db.execution_options(stream_results=True, max_row_buffer=at_once)
        result = streamed.execute(_statement(sql.query), _parameters(sql.query, snapshot))
        names = list(result.keys())
        for rows in result.partitions(at_once):
            yield (
                names,
                [
                    _array(values, name, source)
                    for name, values in zip(names, zip(*rows, strict=True), strict=True)
                ],
            )


def _array(values: tuple[Any, ...], name: str, source: Source) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise UsageError(
            f"the column '{name}' holds {' and '.join(kinds)}, which is no text, number or time",
            where=_where(source),
            remedy="convert it in source.sql.query, for example CAST(… AS text)",
        ) from None


@contextlib.contextmanager
def _transaction(source: Source) -> Iterator[sa.Connection]:
    """Open a read-only transaction that sees one state of the database; translate its errors."""
    engine = _engine(source)
    try:
        with engine.connect() as db:
            yield db
    except sa.exc.SQLAlchemyError as problem:
        raise UsageError(
            f"the database refused: {_said(problem)}",
            where=_where(source),
            remedy="check source.sql.url, password_file and the query, and that the account may read the tables",
        ) from None
    finally:
        engine.dispose()


def _engine(source: Source) -> sa.Engine:
    sql = _settings(source)
    try:
        url = sa.make_url(sql.url)
        if url.get_backend_name() == "sqlite":
            return sa.create_engine(_read_only_file(url, source), hide_parameters=True)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg2")
        if sql.password_file is not None:
            url = url.set(password=_password(sql.password_file))
        engine = sa.create_engine(url, hide_parameters=True)
    except (sa.exc.ArgumentError, ImportError) as problem:
        missing = isinstance(problem, ImportError | sa.exc.NoSuchModuleError)
        raise UsageError(
            "there is no driver for this database" if missing else "this is no address of a database",
            where="source.sql.url",
            remedy="install the driver's package beside murmur, or give postgresql://user@host/database",
        ) from None
    if url.get_backend_name() == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine


def _read_only_file(url: sa.URL, source: Source) -> str:
    """Return the address of a file of SQLite that is opened for reading; SQLite would make a missing one."""
    path = Path(url.database or "").absolute()
    if not path.is_file():
        raise UsageError(
            "this file of SQLite does not exist", where=str(path), remedy="check the path in source.sql.url"
        )
    return f"sqlite:///file:{path}?mode=ro&uri=true"


def _password(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            "the password cannot be read", where=file, remedy="check source.sql.password_file and its mode"
        ) from None


def _said(problem: sa.exc.SQLAlchemyError) -> str:
    """Return the database's own words where they name tables, columns or the server; else the kind of the problem."""
    original = getattr(problem, "orig", None)
    code = getattr(original, "pgcode", None)
    about_data = code is not None and not code.startswith(_TELLING)
    if (
        original is None
        or about_data
        or not isinstance(problem, sa.exc.OperationalError | sa.exc.ProgrammingError)
    ):
        return type(original or problem).__name__ + (f" (SQLSTATE {code})" if code else "")
    return str(original).splitlines()[0]


def _statement(query: str) -> sa.TextClause:
    return sa.text(query)


def _parameters(query: str, snapshot: datetime.date) -> dict[str, str]:
    """Return the snapshot where the query has the parameter :snapshot, as a text that databases compare with dates."""
    return {"snapshot": snapshot.isoformat()} if "snapshot" in sa.text(query).compile().params else {}


def _settings(source: Source) -> Sql:
    assert source.sql is not None  # the configuration requires it
    return source.sql


def _where(source: Source) -> str:
    url = sa.make_url(_settings(source).url)
    return f"source.sql ({url.render_as_string(hide_password=True)})"
