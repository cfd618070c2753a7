"""Lock across machines: advisory locks of the PostgreSQL that holds the ledger.

A lock belongs to a connection of its own and goes when the process or its machine dies: the server asks a silent client
whether it is there. Who has lost the connection does not know that others may have entered; `require_held` asks before
what cannot be taken back.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from typing import Any

from tasks.errors import MurmurError, UsageError

# A machine that is cut off holds its locks for two minutes at most.
KEEP_ALIVE = "-c tcp_keepalives_idle=60 -c tcp_keepalives_interval=15 -c tcp_keepalives_count=4"


class Locks:
    """Hold the locks of this process on one store."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._held: list[Any] = []

    @contextlib.contextmanager
    def lock(self, name: str, seconds: float | None) -> Iterator[None]:
        """Keep everybody else out of what has this name; raise TimeoutError after this time."""
        with self._connected() as connection:
            self._acquire(connection, name, seconds)
            with self._holding(connection):
                yield

    @contextlib.contextmanager
    def share(self, name: str) -> Iterator[None]:
        """Keep out who locks this name alone, together with others who share it; wait until that is possible."""
        with self._connected() as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock_shared(%s)", (self._key(name),))
            with self._holding(connection):
                yield

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        connection = _connect()
        try:
            yield connection
        finally:
            connection.close()

    @contextlib.contextmanager
    def _holding(self, connection: Any) -> Iterator[None]:
        self._held.append(connection)
        try:
            yield
        finally:
            self._held.remove(connection)

    def require_held(self) -> None:
        """Raise an error where the connection behind a lock is gone."""
        import psycopg2

        for connection in list(self._held):
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
            except psycopg2.Error:
                raise MurmurError(
                    "the connection that held a lock of the store was lost, so another process may write there",
                    where="MURMUR_LEDGER",
                    remedy="run this step again",
                ) from None

    def _key(self, name: str) -> int:
        digest = hashlib.sha256(f"murmur {self._store} {name}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def _acquire(self, connection: Any, name: str, seconds: float | None) -> None:
        import psycopg2

        key = self._key(name)
        with connection.cursor() as cursor:
            if seconds is not None and seconds <= 0:
                cursor.execute("SELECT pg_try_advisory_lock(%s)", (key,))
                if not cursor.fetchone()[0]:
                    raise TimeoutError
                return
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, false)", (f"{round((seconds or 0) * 1000)}ms",)
            )
            try:
                cursor.execute("SELECT pg_advisory_lock(%s)", (key,))
            except psycopg2.errors.LockNotAvailable:
                raise TimeoutError from None


def require_shared_ledger(store: str) -> str:
    """Return `MURMUR_LEDGER`; refuse anything but a PostgreSQL: no file of SQLite can be in an object store."""
    address = os.environ.get("MURMUR_LEDGER", "")
    if not address.startswith(("postgresql://", "postgresql+psycopg2://")):
        raise UsageError(
            "a store in an object store needs a ledger in PostgreSQL: a SQLite file cannot be shared by machines",
            where=f"MURMUR_LEDGER beside the store {store}",
            remedy="set MURMUR_LEDGER=postgresql://user@host/database",
        )
    return address


def _connect() -> Any:
    import psycopg2

    address = os.environ["MURMUR_LEDGER"].replace("postgresql+psycopg2://", "postgresql://", 1)
    try:
        connection = psycopg2.connect(address, options=KEEP_ALIVE, connect_timeout=20)
    except psycopg2.Error:  # its text may quote the address, and so a password
        raise UsageError(
            "the PostgreSQL of the ledger does not answer, or refuses our account",
            where="MURMUR_LEDGER",
            remedy="start it, or correct the address",
        ) from None
    connection.autocommit = True
    return connection
