"""Append to a ledger's chain of digests, verify it, and compute the digests that its bodies hold.

Each entry holds the digest of the one before. The body of a release's entry commits to all its rows; rows about people
enter by salted commitments, so that the body stays true when a person is erased.
"""

import datetime
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tasks.errors import MurmurError
from tasks.series import schema
from tasks.store import digest_of, dumps

FIRST_HEAD = "0" * 64


def head_of(db: sa.Connection) -> str:
    """Return the digest of the last entry."""
    t = schema.entries
    return db.scalar(sa.select(t.c.digest).order_by(t.c.seq.desc()).limit(1)) or FIRST_HEAD


def append(db: sa.Connection, kind: str, body: dict[str, Any]) -> str:
    """Append an entry; return the new head."""
    t = schema.entries
    previous = head_of(db)
    digest = entry_digest(kind, body, previous)
    row = {"kind": kind, "body": dumps(body), "previous": previous, "digest": digest}
    db.execute(sa.insert(t).values(seq=next_id(db, t.c.seq), **row))
    return digest


def next_id(db: sa.Connection, column: sa.Column[int], first: int = 1) -> int:
    """Return the id of the next row of a table."""
    last = db.scalar(sa.select(sa.func.max(column)))
    return first if last is None else last + 1


def entry_digest(kind: str, body: dict[str, Any], previous: str) -> str:
    """Return the digest of an entry."""
    return digest_of({"kind": kind, "body": body, "previous": previous})


def read_chain(db: sa.Connection, population: str) -> list[tuple[str, dict[str, Any]]]:
    """Return kind and body of all entries; refuse a chain that is not what was written."""
    previous, found = FIRST_HEAD, []
    for number, row in enumerate(db.execute(sa.select(schema.entries).order_by(schema.entries.c.seq)), 1):
        body = _body(row.body)
        is_true = row.seq == number and row.previous == previous and body is not None
        if not is_true or row.digest != entry_digest(row.kind, body or {}, previous):
            raise MurmurError(
                f"entry {number} of the ledger is not what was written",
                where=f"ledger {population}",
                remedy="restore the ledger from a backup; nothing is published before that",
            )
        found.append((row.kind, body or {}))
        previous = row.digest
    return found


def _body(text: str) -> dict[str, Any] | None:
    try:
        body = json.loads(text)
    except ValueError:
        return None
    return body if isinstance(body, dict) and dumps(body) == text else None


def now() -> str:
    """Return the time of an entry."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()


def commitments(db: sa.Connection, release_id: int) -> dict[str, Any]:
    """Return the digests of all rows that a release entered, recomputed from the tables."""
    r, g, rg, i, b = (
        schema.releases,
        schema.groups,
        schema.release_groups,
        schema.items,
        schema.budget,
    )
    fixed = [column for column in r.c if column.name != "state"]
    own = {
        "release": sa.select(*fixed).where(r.c.id == release_id),
        "groups": sa.select(g.c.id, g.c.place, g.c.size, g.c.profile, g.c.stratum)
        .where(g.c.release_id == release_id)
        .order_by(g.c.id),
        "listed": sa.select(rg.c.group_id, rg.c.number)
        .where(rg.c.release_id == release_id)
        .order_by(rg.c.group_id),
        "items": sa.select(i.c.id, i.c.item).where(i.c.seen_release_id == release_id).order_by(i.c.id),
        "catalogue": sa.select(i.c.position, i.c.item)
        .where(i.c.release_id == release_id)
        .order_by(i.c.position),
        "budget": sa.select(b).where(b.c.release_id == release_id),
    }
    found = {name: _digest_of_rows(tuple(row) for row in db.execute(wanted)) for name, wanted in own.items()}
    return {**found, "persons": _digest_of_persons(db, release_id)}


def _digest_of_rows(rows: Iterator[tuple[Any, ...]]) -> str:
    """Return the digest of rows, each as a line of JSON: no list of them all is held."""
    state = hashlib.sha256()
    for row in rows:
        state.update(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    return state.hexdigest()


def _digest_of_persons(db: sa.Connection, release_id: int) -> str:
    """Return the digest of who is in which group, by commitments alone."""
    p, g = schema.persons, schema.groups
    wanted = sa.select(p.c.id, p.c.group_id, p.c.commitment).join(g, g.c.id == p.c.group_id)
    state = hashlib.sha256()
    for row in db.execute(wanted.where(g.c.release_id == release_id).order_by(p.c.id)):
        state.update(row.id.to_bytes(8, "big") + row.group_id.to_bytes(8, "big") + bytes(row.commitment))
    return state.hexdigest()
