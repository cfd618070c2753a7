"""Read the ledgers of a store: the judge's own small reader of their tables, for reading only.

Used for the order of publication, the digests of manifests and the versions of ratings that stand behind published
profiles; nothing of tasks/series is imported. Without MURMUR_LEDGER a ledger is a file in private/ledger; with it, each
population is a schema of that database. The key of a population's tokens is a file in either case.
"""

import contextlib
import hmac
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from tasks.errors import Refused

Key = tuple[str, str]  # name of the release, its directory
Version = tuple[list[str], np.ndarray]  # item ids, ratings
TOKEN_BYTES = 16
TOKENS_AT_ONCE = 500
STEPS = ("u1", "<u2", "<u4")
CODES = (("i1", 2.0), ("<i2", 100.0), ("<f4", 1.0))


@dataclass(frozen=True)
class LedgerFile:
    """Name one ledger: its database, the schema inside it (PostgreSQL), and the file with the key of its tokens."""

    url: sa.URL
    schema: str
    key: Path

    @property
    def population(self) -> str:
        """The name of the people it is about."""
        return self.key.stem

    def releases(self) -> dict[Key, int]:
        """Return the numbers of all releases that were ever public, ascending by publication."""
        rows = self._rows("SELECT id, name, snapshot, revision FROM {}releases WHERE state <> 'prepared'")
        return {
            (name, f"{snapshot}-r{revision}" if revision else str(snapshot)): number
            for number, name, snapshot, revision in rows
        }

    def manifests(self) -> dict[Key, tuple[str, str]]:
        """Return the digest of the manifest of each release that was ever public, and the version of the program."""
        rows = self._rows(
            "SELECT name, snapshot, revision, manifest, code FROM {}releases WHERE state <> 'prepared'"
        )
        return {
            (name, f"{snapshot}-r{revision}" if revision else str(snapshot)): (manifest, code)
            for name, snapshot, revision, manifest, code in rows
        }

    def spending(self) -> dict[Key, tuple[float, float]]:
        """Return what each release with a privacy budget spent: rho, and the probability that it does not hold."""
        rows = self._rows(
            "SELECT r.name, r.snapshot, r.revision, b.rho, b.failure FROM {0}releases r "
            "JOIN {0}budget b ON b.release_id = r.id WHERE r.state <> 'prepared'"
        )
        return {
            (name, f"{snapshot}-r{revision}" if revision else str(snapshot)): (float(rho), float(failure))
            for name, snapshot, revision, rho, failure in rows
        }

    def erased(self) -> int:
        """Return how many people were erased, and so never enter a release again."""
        return int(self._rows("SELECT count(*) FROM {}blocked")[0][0])

    def versions(self, ids: Sequence[str]) -> dict[str, Version]:
        """Return the published ratings of those of these people whom the ledger knows, their newest version."""
        if not self.key.exists():
            return {}
        secret = self.key.read_bytes()
        known = {
            hmac.digest(secret, one.encode("utf-8", "surrogatepass"), "sha256")[:TOKEN_BYTES]: one
            for one in ids
        }
        names = dict(self._rows("SELECT id, item FROM {}items"))
        newest: dict[str, bytes] = {}
        tokens = list(known)
        for start in range(0, len(tokens), TOKENS_AT_ONCE):
            part = tokens[start : start + TOKENS_AT_ONCE]
            rows = self._rows(
                "SELECT p.token, v.ratings FROM {0}persons p JOIN {0}versions v ON v.person_id = p.id "
                "WHERE p.token IN :tokens ORDER BY p.id",
                tokens=part,
            )
            newest |= {known[bytes(token)]: bytes(data) for token, data in rows}
        return {one: _decoded(data, names) for one, data in newest.items()}

    def _rows(self, statement: str, **values: object) -> list[tuple]:
        prefix = f'"{self.schema}".' if self.schema else ""
        query = sa.text(statement.format(prefix))
        query = query.bindparams(*(sa.bindparam(name, expanding=True) for name in values))
        try:
            with contextlib.closing(_connect(self.url)) as connection:
                return [tuple(row) for row in connection.execute(query, values)]
        except (SQLAlchemyError, sqlite3.Error):
            raise _unreadable() from None


def ledgers_of(private: Path) -> list[LedgerFile]:
    """Return every ledger of the store with this private directory."""
    directory = private / "ledger"
    if not (address := os.environ.get("MURMUR_LEDGER")):
        files = sorted(directory.glob("*.db"))
        urls = [sa.URL.create("sqlite", database=str(file)) for file in files]
        return [LedgerFile(url, "", file.with_suffix(".key")) for url, file in zip(urls, files, strict=True)]
    return list(_schemas(sa.make_url(address), directory))


def _schemas(url: sa.URL, directory: Path) -> Iterator[LedgerFile]:
    """Yield the ledgers in a shared database; those of other stores have no key here."""
    found = "SELECT table_schema FROM information_schema.tables WHERE table_name = 'release_groups'"
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg2")
    for (schema,) in LedgerFile(url, "", directory)._rows(found):
        population = re.sub(r"^[a-z]+_", "", schema)
        yield LedgerFile(url, schema, directory / f"{population}.key")


def _connect(url: sa.URL) -> sa.Connection:
    """Open a ledger; a file is opened for reading only."""
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, poolclass=sa.NullPool, hide_parameters=True).connect()
    path = Path(str(url.database)).resolve().as_uri()
    opened = sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(f"{path}?mode=ro", uri=True),
        poolclass=sa.NullPool,
        hide_parameters=True,
    )
    return opened.connect()


def _decoded(data: bytes, names: dict[int, str]) -> Version:
    """Decode a version: a byte of format, the steps between the items' numbers, the ratings."""
    step, (code, factor) = np.dtype(STEPS[data[0] // 3]), CODES[data[0] % 3]
    count = (len(data) - 1) // (step.itemsize + np.dtype(code).itemsize)
    items = np.cumsum(np.frombuffer(data, step, count, offset=1), dtype=np.int64)
    ratings = np.frombuffer(data, code, count, offset=1 + count * step.itemsize) / factor
    return [names[item] for item in items.tolist()], ratings.astype(np.float32)


def _unreadable() -> Refused:
    return Refused(
        "a ledger of this store cannot be read, so what was published when is unknown",
        where="private/ledger",
        remedy="run `murmur ledger --check`",
    )
