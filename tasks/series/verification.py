"""Verify the rows of a ledger: replay its chain and compare every table with what the chain commits to."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tasks.errors import MurmurError
from tasks.series import chain, departure, schema, versions

ROWS_AT_ONCE = 10_000


class _Replay:
    """Hold the states that the entries of the chain lead to."""

    def __init__(self) -> None:
        self.releases: dict[int, str] = {}
        self.rows: dict[int, dict[str, Any]] = {}
        self.words: dict[int, str] = {}
        self.withdrawn_groups: set[int] = set()
        self.pools: dict[int, int] = {}
        self.persons: dict[int, str] = {}  # those that are not simply released
        self.withdrawals: list[dict[str, Any]] = []
        self.erasures: list[dict[str, Any]] = []
        self.blocked: list[str] = []

    def apply(self, kind: str, body: dict[str, Any]) -> None:
        """Apply one entry."""
        if kind == "release":
            number = body["release_id"]
            self.releases[number], self.rows[number] = "published", body["rows"]
            self.words[number] = f"{body['name']} {body['snapshot']} revision {body['revision']}"
            self.pools |= dict(body["pools"])
            self.persons |= dict.fromkeys(body["pooled"], "pooled")
        elif kind == "withdrawal":
            self.releases[body["release_id"]] = "withdrawn"
            self.withdrawals.append({name: value for name, value in body.items() if name != "by"})
        elif kind == "erasure":
            self.withdrawn_groups |= set(body["groups"])
            self.persons |= dict.fromkeys(body["survivors"], "survivor")
            erased = [row["person_id"] for row in body["erasures"] if row["person_id"] is not None]
            self.persons |= dict.fromkeys(erased, "erased")
            self.erasures += body["erasures"]
            self.blocked.append(body["blocked"])
        else:
            raise MurmurError(f"the ledger has an entry of the unknown kind '{kind}'")


def row_problems(db: sa.Connection, population: str) -> list[str]:
    """Return what in the ledger's tables is not what its chain commits to."""
    try:
        entries = chain.read_chain(db, population)
        replay = _Replay()
        for kind, body in entries:
            replay.apply(kind, body)
    except MurmurError as problem:
        return [problem.what]
    found = [
        f"{replay.words[number]}: {name} in the ledger are not those that were entered"
        for number, rows in replay.rows.items()
        for name, digest in chain.commitments(db, number).items()
        if rows.get(name) != digest
    ]
    return [
        *found,
        *_wrong_states(db, replay),
        *_wrong_departures(db, replay),
        *_false_commitments(db, replay),
    ]


def _wrong_states(db: sa.Connection, replay: _Replay) -> Iterator[str]:
    r, g = schema.releases, schema.groups
    states = {
        row.id: row.state for row in db.execute(sa.select(r.c.id, r.c.state)) if row.state != "prepared"
    }
    if states != replay.releases:
        yield "the releases in the ledger, or which of them were withdrawn, are not those of its chain"
    rows = db.execute(sa.select(g.c.id, g.c.state, g.c.pool, g.c.release_id)).all()
    if any(row.state != ("withdrawn" if row.id in replay.withdrawn_groups else "live") for row in rows):
        yield "the withdrawn groups in the ledger are not those of its chain"
    if {row.id: row.pool for row in rows if row.pool is not None} != replay.pools:
        yield "the pools of groups in the ledger are not those of its chain"
    i = schema.items
    half_listed = sa.select(i.c.id).where(i.c.position.is_(None) != i.c.release_id.is_(None))
    if db.scalar(half_listed.limit(1)) is not None:
        yield "an item of the ledger has a position and no release that published it, or the reverse"
    known = [*replay.releases]
    for table, column in (
        (schema.groups, schema.groups.c.release_id),
        (schema.release_groups, schema.release_groups.c.release_id),
        (schema.items, schema.items.c.seen_release_id),
        (schema.items, schema.items.c.release_id),
        (schema.budget, schema.budget.c.release_id),
    ):
        if db.scalar(sa.select(sa.func.count()).select_from(table).where(column.not_in(known))):
            yield f"table {table.name} has rows of a release that was never entered"


def _wrong_departures(db: sa.Connection, replay: _Replay) -> Iterator[str]:
    for table, entered in ((schema.withdrawals, replay.withdrawals), (schema.erasures, replay.erasures)):
        rows = [dict(row) for row in db.execute(sa.select(table)).mappings()]
        if sorted(map(repr, map(_sorted, rows))) != sorted(map(repr, map(_sorted, entered))):
            yield f"the {table.name} in the ledger are not those of its chain"
    blocked = db.execute(sa.select(schema.blocked)).all()
    found = [departure.block_commitment(bytes(row.salt), bytes(row.token)) for row in blocked]
    if sorted(found) != sorted(replay.blocked):
        yield "the block-list is not that of the chain"


def _sorted(row: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(row.items()))


def _false_commitments(db: sa.Connection, replay: _Replay) -> Iterator[str]:
    """Find people whose rows or ratings are not those that were entered; the message counts and names nobody."""
    p, v, g = schema.persons, schema.versions, schema.groups
    wanted = sa.select(p, v.c.ratings).outerjoin(v, v.c.person_id == p.c.id)
    wrong: Counter[str] = Counter()
    for row in db.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted.order_by(p.c.id)):
        if row.state != replay.persons.get(row.id, "released"):
            wrong["whose state is not that of the chain"] += 1
        elif row.state == "erased":
            if (row.token, row.salt, row.ratings) != (None, None, None):
                wrong["who were erased and of whom something is left"] += 1
        elif None in (row.token, row.salt, row.ratings) or bytes(row.commitment) != versions.commit(
            bytes(row.salt), bytes(row.token), row.group_id, bytes(row.ratings)
        ):
            wrong["whose published ratings are not those that were entered"] += 1
    for words, count in wrong.items():
        yield f"{count:,} people {words}"
    if db.scalar(sa.select(sa.func.count()).select_from(v).where(v.c.person_id.not_in(sa.select(p.c.id)))):
        yield "there are ratings of nobody in the ledger"
    if db.scalar(sa.select(sa.func.count()).select_from(p).where(p.c.group_id.not_in(sa.select(g.c.id)))):
        yield "there are people in groups that the ledger does not have"
