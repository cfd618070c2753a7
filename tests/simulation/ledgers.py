"""Let ledgers of the simulation live in one SQLite database in memory; each commit is a crash point before and after.

SQLite's own durability is taken as given: what is committed survives a power failure, what is not is gone, and a commit
syncs the directory of the database's files. Transactions are serial in SQLite, so processes change places only between
them. Where a power failure takes the file of the database, the ledger is empty again.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool


def _empty() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        made.executescript("CREATE TABLE t (a); DROP TABLE t; VACUUM")
        return made.serialize()


class _Kept(sqlite3.Connection):
    """Stay open: SQLAlchemy closes the connection of a process that crashes, and here all share it."""

    def close(self) -> None:
        if self.in_transaction:
            self.rollback()


class LedgerInMemory:
    """Hold the connection that all processes share; `point` and `atomic` are those of the schedule."""

    EMPTY = _empty()

    def __init__(self) -> None:
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, factory=_Kept
        )
        self.point: Callable[[str, str], None] = lambda what, where: None
        self.set_atomic: Callable[[bool], None] = lambda value: None
        self.synced: Callable[[], None] = lambda: None
        self.engine = self._engine()
        self._answers: dict[Any, Any] = {}

    def _engine(self) -> sa.Engine:
        engine = sa.create_engine(
            "sqlite://", poolclass=StaticPool, creator=lambda: self.connection, hide_parameters=True
        )

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            writes = connection.get_execution_options().get("writes")
            self.point("begin", "writing" if writes else "reading")
            self.set_atomic(True)
            self._changes = self.connection.total_changes
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        def commit(raw: Any) -> None:
            changed = self.connection.in_transaction and self.connection.total_changes != self._changes
            if changed:
                self.point("commit", "")
            raw.commit()
            self.set_atomic(False)
            if changed:
                self._changes = self.connection.total_changes
                self._answers = {}
                self.synced()
                self.point("committed", "")

        def rollback(raw: Any) -> None:
            raw.rollback()
            self._changes = self.connection.total_changes
            self.set_atomic(False)

        engine.dialect.do_commit = commit  # type: ignore[method-assign, assignment]
        engine.dialect.do_rollback = rollback  # type: ignore[method-assign, assignment]
        engine.dispose = lambda close=True: None  # type: ignore[method-assign]
        self._changes = 0
        self.connection.deserialize(self.EMPTY)
        return engine

    def open(self, directory: Path, population: str) -> sa.Engine:
        """Stand in for tasks.series.database._engine."""
        return self.engine

    def crash(self) -> None:
        """Undo what is not committed."""
        if self.connection.in_transaction:
            self.connection.rollback()
        self._changes = self.connection.total_changes

    def save(self) -> bytes:
        return self.connection.serialize()

    def load(self, image: bytes) -> None:
        self.crash()
        self.connection.deserialize(image)
        self._changes = self.connection.total_changes
        self._answers = {}

    def remembered(self, read: Callable[..., Any], *, own_transaction: bool = True) -> Callable[..., Any]:
        """Return a method that reads the ledger once in each state: what it returns follows from the rows alone.

        Somebody else may go on where its transaction would begin."""

        @functools.wraps(read)
        def answer(owner: Any, *given: Any, **named: Any) -> Any:
            key = read, given, *named.items()
            if key not in self._answers:
                answers, found = self._answers, read(owner, *given, **named)
                if answers is not self._answers:  # another process has committed meanwhile
                    return found
                answers[key] = found
            elif own_transaction:
                self.point("begin", "reading")
                if key not in self._answers:
                    return answer(owner, *given, **named)
            return copy.copy(self._answers[key])

        return answer
