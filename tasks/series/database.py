"""Open the database of a ledger: SQLite below private/ledger, or the PostgreSQL that `MURMUR_LEDGER` names.

Errors of the database never show the values of a statement (`hide_parameters`): they would be in logs.
"""

import contextlib
import hashlib
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasks.errors import MurmurError, UsageError, no_space_left
from tasks.series import schema
from tasks.store import Store, make_private, sync_directory, sync_path

KEY_BYTES = 32
WAIT_SECONDS = 600
FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")  # the second: of the file that a ledger in WAL mode maps
PREFIX = "ledger_"
LONGEST_NAME = 63 - len(PREFIX)  # of a schema of PostgreSQL, which cuts longer names


class Database:
    """Hold the engine of one ledger, and begin its transactions."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self._engine, self._name = engine, name

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that sees one state of the ledger."""
        with self._engine.connect() as db, db.begin():
            yield db

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a transaction that nobody else's can interleave with."""
        with self._engine.connect().execution_options(writes=True) as db, db.begin():
            if self.is_shared:
                db.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _lock_number(self._name)})
            yield db

    @property
    def is_shared(self) -> bool:
        """Return whether other machines may use this database, so that no lock file serialises them."""
        return self._engine.dialect.name == "postgresql"

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep publishers on other machines out; on this machine the store's lock file does."""
        if not self.is_shared:
            yield
            return
        # A transaction on a connection of its own: the lock goes when the process dies.
        key = {"key": _lock_number(f"publication of {self._name}")}
        with self._engine.begin() as db:
            db.execute(sa.text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
            db.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), key)
            yield

    def forget_removed(self) -> None:
        """Remove the last copies of deleted rows from the write-ahead log."""
        if not self.is_shared:
            _set_pragma(self._engine, "wal_checkpoint(TRUNCATE)")


def directory_of_ledgers(store: Store) -> Path:
    """Return the directory of all ledgers of a store; it may not exist."""
    return store.root / "private" / "ledger"


def populations(store: Store) -> list[str]:
    """Return the populations that have a ledger of this store: each has a key."""
    return sorted(path.stem for path in directory_of_ledgers(store).glob("*.key"))


@contextlib.contextmanager
def open_database(store: Store, population: str) -> Iterator[tuple[Database, bytes]]:
    """Open the database of a population, made where there is none; return it and the key of its tokens."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", population):
        raise UsageError(
            "this is no name of a population",
            where="series.population",
            remedy="use letters, digits, _ and -, at most 64",
        )
    directory = directory_of_ledgers(store)
    make_private(directory, below=store.root)
    engine = _engine(directory, population)
    try:
        database = Database(engine, population)
        key = directory / f"{population}.key"
        with store.storage.lock(directory / f".{population}.lock", WAIT_SECONDS):
            store.storage.fetch_shared(key)
            if not database.is_shared:
                _make_file(directory / f"{population}.db")
            tables = _tables(engine)
            if schema.meta.name not in tables:
                sync_path(directory, below=store.root)
                _make(database, engine, key)
            else:
                _complete(database, engine, tables)
        yield database, _read_key(database, key)
    except (sa.exc.OperationalError, sqlite3.OperationalError) as problem:
        raise _of_the_disk(problem, directory) from None
    finally:
        engine.dispose()


def _of_the_disk(problem: sa.exc.OperationalError | sqlite3.OperationalError, directory: Path) -> Exception:
    """Return what an error of SQLite means where the disk is its cause; else the error itself."""
    name = getattr(getattr(problem, "orig", problem), "sqlite_errorname", "")
    if name in FULL:
        return no_space_left(str(directory))
    if name.startswith("SQLITE_READONLY"):
        return UsageError(
            "the ledger cannot be written: the file system is read-only",
            where=str(directory),
            remedy="mount it so that it can be written, then run it again",
        )
    return problem


def _engine(directory: Path, population: str) -> sa.Engine:
    if address := os.environ.get("MURMUR_LEDGER"):
        return _postgresql(address, population)
    engine = sa.create_engine(
        f"sqlite:///{directory / f'{population}.db'}",
        connect_args={"timeout": WAIT_SECONDS},
        hide_parameters=True,
    )

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not where the driver guesses
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")  # erased rows leave no bytes in free pages
        connection.execute("PRAGMA cache_size=-65536")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A reader that starts to write could find that another has written meanwhile: writers say so at once.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(address: str, population: str) -> sa.Engine:
    try:
        url = sa.make_url(address)
    except sa.exc.ArgumentError:
        url = None
    if (
        url is None or url.get_backend_name() != "postgresql"
    ):  # the address may hold a password: never show it
        raise UsageError(
            "this is no address of a PostgreSQL database",
            where="MURMUR_LEDGER",
            remedy="give postgresql://user@host/database, or unset it for SQLite in the store",
        )
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg2")
    engine = sa.create_engine(url, hide_parameters=True)
    return engine.execution_options(schema_translate_map={None: _schema_name(population)})


def _schema_name(population: str) -> str:
    if len(population) <= LONGEST_NAME:
        return PREFIX + population
    mark = hashlib.sha256(population.encode()).hexdigest()[:12]
    return f"{PREFIX}{population[: LONGEST_NAME - 13]}_{mark}"


def _tables(engine: sa.Engine) -> frozenset[str]:
    return frozenset(sa.inspect(engine).get_table_names(schema=_place(engine)))


def _place(engine: sa.Engine) -> str | None:
    """Return the schema of a shared database in which this ledger is; None: the database is the ledger's own."""
    return engine.get_execution_options().get("schema_translate_map", {}).get(None)


def _make_file(path: Path) -> None:
    """Make the file of a database, the owner's alone; SQLite gives the files beside it the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)


def _make(database: Database, engine: sa.Engine, key: Path) -> None:
    """Make the tables and the key. A key that is there is kept: `meta` says whether it is the right one."""
    if not database.is_shared:
        _set_pragma(engine, "journal_mode=WAL")
    if not key.exists():
        _write_key(key)
    values = {"schema_version": schema.SCHEMA_VERSION, "key": _mark(key.read_bytes())}
    with database.writing() as db:
        if (name := _place(engine)) is not None:
            db.execute(sa.schema.CreateSchema(name, if_not_exists=True))
        schema.metadata.create_all(db)
        if not db.scalar(sa.select(sa.func.count()).select_from(schema.meta)):
            db.execute(sa.insert(schema.meta), [{"key": k, "value": v} for k, v in values.items()])


def _complete(database: Database, engine: sa.Engine, tables: frozenset[str]) -> None:
    """Make the tables that a ledger of an older version lacks. Its table of budgets has other columns, and no rows:
    nothing spent a budget then, so no entry of the chain commits to any."""
    if schema.refused_people.name not in tables:
        with database.writing() as db:
            schema.metadata.create_all(db)
    names = {column["name"] for column in sa.inspect(engine).get_columns("budget", schema=_place(engine))}
    if names != set(schema.budget.c.keys()):
        with database.writing() as db:
            if db.scalar(sa.select(sa.func.count()).select_from(schema.budget)):
                raise MurmurError(
                    "the ledger's table of budgets has another form than this version of the program reads",
                    where="table budget",
                    remedy="use the version that wrote it",
                )
            schema.budget.drop(db)
            schema.budget.create(db)


def _set_pragma(engine: sa.Engine, words: str) -> None:
    """Execute a pragma of SQLite outside any transaction."""
    with contextlib.closing(engine.raw_connection()) as connection:
        connection.cursor().execute(f"PRAGMA {words}")


def _write_key(path: Path) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync_directory(path.parent)


def _read_key(database: Database, path: Path) -> bytes:
    with database.reading() as db:
        values = {row.key: row.value for row in db.execute(sa.select(schema.meta))}
    if values.get("schema_version") != schema.SCHEMA_VERSION:
        raise MurmurError(
            "this ledger has another form than this version of the program reads",
            where=str(path.with_suffix(".db")),
            remedy=f"use the version that wrote it (form {values.get('schema_version')})",
        )
    key = path.read_bytes() if path.exists() else b""
    if values.get("key") != _mark(key):
        raise MurmurError(
            "the key of this ledger is missing or is another ledger's; nobody in it can be recognised",
            where=str(path),
            remedy="restore the key from a backup; nothing is published before that",
        )
    return key


def _mark(key: bytes) -> str:
    """Return what distinguishes a key from others and does not disclose it."""
    return hashlib.sha256(b"murmur ledger key\0" + key).hexdigest()


def _lock_number(name: str) -> int:
    digest = hashlib.sha256(f"murmur {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
