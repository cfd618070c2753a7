"""Find source ids anywhere in a store: decode every file and database, and say where one of the given ids occurs.

python -m benchmarks.find_ids IDS PATH … [--database URL …]

IDS is a file with one id per line. A PATH is a directory or a file: Parquet, SQLite, JSON (XCom values, as Airflow's
API returns them), text, logs, SQL dumps, .npy, .npz, .zip, .gz; of any other file the bytes are searched. A database is
read table by table. Prints places and never an id; exits 1 if there is one. Independent of
tasks/series/private_files.py, which removes them.
"""

import argparse
import gzip
import io
import json
import re
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SHORTEST_INSIDE = 6  # shorter ids are looked for as whole values and words, not inside others or in bytes


class IdFinder:
    """Search decoded values for a set of ids."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.ids = frozenset(ids) - {""}
        self._words = _pattern(self.ids)
        self._inside = _pattern({one for one in self.ids if len(one) >= SHORTEST_INSIDE})

    def below(self, place: Path) -> Iterator[str]:
        """Yield every place below a directory (or in a file) that holds an id."""
        files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
        for file in files:
            if self._in_value(file.name):
                yield f"{file.parent}: a file's name"
            try:
                data = file.read_bytes()
            except FileNotFoundError:  # a database tidies up when its last reader leaves
                continue
            for where in self.in_file(file.name, data, file):
                yield f"{file}: {where}"

    def in_file(self, name: str, data: bytes, file: Path | None = None) -> Iterator[str]:
        """Yield where in the contents of a file an id is."""
        if data.startswith(b"PAR1"):
            yield from self._in_parquet(data)
        elif data.startswith(b"SQLite format 3\0"):
            yield from self._in_sqlite(data, file)
        elif data.startswith(b"\x93NUMPY"):
            yield from self._in_array("array", np.load(io.BytesIO(data), allow_pickle=False))
        elif data.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for member in archive.namelist():
                    yield from (f"{member}: {one}" for one in self.in_file(member, archive.read(member)))
        elif data.startswith(b"\x1f\x8b"):
            yield from self.in_file(name.removesuffix(".gz"), gzip.decompress(data))
        else:
            yield from self._in_text(data)

    def in_json(self, value: Any, where: str = "$") -> Iterator[str]:
        """Yield where in a JSON value an id is, also in JSON inside a text."""
        if isinstance(value, dict):
            for number, (key, part) in enumerate(value.items()):
                if self._in_value(key):
                    yield f"key {number} of {where}"
                yield from self.in_json(part, f"{where}.{number}")
        elif isinstance(value, list):
            for number, part in enumerate(value):
                yield from self.in_json(part, f"{where}[{number}]")
        elif isinstance(value, str):
            if value[:1] in ("{", "[", '"') and (inner := _parsed(value)) is not None:
                yield from self.in_json(inner, f"{where}: text")
            elif self._in_value(value):
                yield where

    def in_database(self, url: str) -> Iterator[str]:
        """Yield tables and columns of a database that hold an id."""
        import sqlalchemy as sa

        engine = sa.create_engine(url, hide_parameters=True)
        inspector = sa.inspect(engine)
        with engine.connect() as connection:
            for schema in inspector.get_schema_names():
                if schema in ("information_schema", "pg_catalog"):
                    continue
                for name in inspector.get_table_names(schema=schema):
                    table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=engine)
                    rows = connection.execute(sa.select(table))
                    yield from (f"{schema}.{name}.{one}" for one in self._in_rows(list(rows.keys()), rows))
        engine.dispose()

    def _in_value(self, value: Any) -> bool:
        if isinstance(value, bytes | bytearray | memoryview):
            value = bytes(value)
            return value in self._encoded or self._inside.search(value) is not None
        if isinstance(value, str):
            return value in self.ids or self._inside.search(value.encode("utf-8", "replace")) is not None
        if isinstance(value, dict | list):
            return next(self.in_json(value), None) is not None
        return False

    @property
    def _encoded(self) -> frozenset[bytes]:
        return frozenset(one.encode() for one in self.ids)

    def _in_text(self, data: bytes) -> Iterator[str]:
        if (value := _parsed(data)) is not None:
            yield from self.in_json(value)
        elif b"\0" in data:
            if self._inside.search(data):
                yield "bytes"
        else:
            for number, line in enumerate(data.split(b"\n"), 1):
                if self._words.search(line):
                    yield f"line {number}"

    def _in_parquet(self, data: bytes) -> Iterator[str]:
        try:
            table = pq.read_table(io.BytesIO(data))
        except pa.ArrowException:
            yield from (["bytes"] if self._inside.search(data) else [])
            return
        noted = table.schema.metadata or {}
        if any(self._in_value(part) for pair in noted.items() for part in pair):
            yield "metadata"
        for name in table.column_names:
            column = table.column(name)
            if any(_holds_texts(one) for one in _types(column.type)) and any(
                self._in_value(value) for value in _flat(column.to_pylist())
            ):
                yield f"column {name}"

    def _in_array(self, name: str, array: np.ndarray) -> Iterator[str]:
        if array.dtype.kind in "US" and any(self._in_value(one) for one in array.ravel().tolist()):
            yield name

    def _in_sqlite(self, data: bytes, file: Path | None) -> Iterator[str]:
        """Read the tables, with the write-ahead log, from a copy; then the bytes, for pages that are free."""
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "copy.db"
            copy.write_bytes(data)
            for end in ("-wal", "-shm"):
                if file is not None and (beside := file.with_name(file.name + end)).exists():
                    copy.with_name(copy.name + end).write_bytes(beside.read_bytes())
            database = sqlite3.connect(copy)
            names = [
                row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            for name in names:
                rows = database.execute(f'SELECT * FROM "{name}"')
                columns = [column[0] for column in rows.description]
                yield from (f"table {name}, {one}" for one in self._in_rows(columns, rows))
            database.close()
        if self._inside.search(data):
            yield "bytes"

    def _in_rows(self, columns: list[str], rows: Iterable[Any]) -> list[str]:
        found: dict[str, None] = {}
        for row in rows:
            for name, value in zip(columns, row, strict=True):
                if name not in found and (self._in_value(value) or self._in_quoted(value)):
                    found[name] = None
        return list(found)

    def _in_quoted(self, value: Any) -> bool:
        """Search JSON in a text column, as XCom values are stored."""
        inner = _parsed(value) if isinstance(value, str) and value[:1] in ("{", "[", '"') else None
        return inner is not None and next(self.in_json(inner), None) is not None


def _pattern(ids: Iterable[str]) -> "re.Pattern[bytes]":
    words = sorted((re.escape(one.encode()) for one in ids), key=len, reverse=True)
    return re.compile(rb"(?<!\w)(?:" + b"|".join(words) + rb")(?!\w)") if words else re.compile(rb"(?!)")


def _parsed(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _types(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for number in range(kind.num_fields):
        yield from _types(kind.field(number).type)


def _holds_texts(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        yield values
        return
    for value in values:
        yield from _flat(value)


def main(arguments: list[str] | None = None) -> int:
    """Print the places; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="find_ids", description="Find source ids in a store.")
    parser.add_argument("ids", type=Path, help="file with one id per line")
    parser.add_argument("paths", nargs="+", type=Path, help="directories and files to decode")
    parser.add_argument("--database", action="append", default=[], metavar="URL", help="read this one too")
    options = parser.parse_args(arguments)
    finder = IdFinder(options.ids.read_text(encoding="utf-8").splitlines())
    own = options.ids.resolve()
    found = [
        place
        for path in options.paths
        for place in finder.below(path)
        if not place.startswith(f"{own}: ") and not place.startswith(f"{options.ids}: ")
    ]
    found += [place for url in options.database for place in finder.in_database(url)]
    print("\n".join([*found, f"{len(found):,} places hold one of {len(finder.ids):,} ids"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
