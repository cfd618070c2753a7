"""Change the ledger's rows when a release is withdrawn or a person is erased; each change is an entry of the chain."""

import hashlib
import secrets
from typing import Any

import sqlalchemy as sa

from tasks.data.actor import acting
from tasks.errors import UsageError
from tasks.series import chain, schema
from tasks.series.entering import SALT_BYTES, insert, set_state
from tasks.series.rows import Erased, Group, PublishedRelease


def withdraw(db: sa.Connection, population: str, release_id: int, reason: str) -> None:
    """Mark a release as withdrawn."""
    t = schema.releases
    if db.scalar(sa.select(t.c.state).where(t.c.id == release_id)) != "published":
        raise UsageError(
            "this release is not published, or it was withdrawn already",
            where=f"ledger {population}, release {release_id}",
            remedy="`murmur ledger` lists the releases",
        )
    row = {"release_id": release_id, "reason": reason, "at": chain.now()}
    db.execute(sa.update(t).where(t.c.id == release_id).values(state="withdrawn"))
    insert(db, schema.withdrawals, [row])
    chain.append(db, "withdrawal", {**row, "by": acting().to_json()})


def touched(db: sa.Connection, token: bytes) -> Erased:
    """Return what the erasure of a person touches."""
    own = _rows_of(db, token)
    groups = _live_groups(db, [row.group_id for row in own])
    ids = [group.id for group in groups]
    p, rg, r = schema.persons, schema.release_groups, schema.releases
    others = sa.select(p.c.token).where(p.c.group_id.in_(ids), p.c.state == "released", p.c.token != token)
    survivors = tuple(bytes(one) for one in db.scalars(others.order_by(p.c.id)))
    listed = sa.select(rg.c.release_id, rg.c.number).where(rg.c.group_id.in_(ids)).order_by(rg.c.release_id)
    places = tuple((row.release_id, row.number) for row in db.execute(listed))
    offers = sa.select(r).where(r.c.id.in_([one for one, _ in places]), r.c.state == "published")
    releases = tuple(PublishedRelease(*row) for row in db.execute(offers.order_by(r.c.id)))
    return Erased(tuple(groups), releases, survivors, places)


def erase(db: sa.Connection, token: bytes) -> Erased:
    """Remove a person's rows, withdraw the groups and block the token. A second time changes nothing."""
    found, own = touched(db, token), _rows_of(db, token)
    b, tried = schema.blocked, schema.refused_people
    db.execute(sa.delete(tried).where(tried.c.token == token))
    is_blocked = db.scalar(sa.select(b.c.token).where(b.c.token == token)) is not None
    if is_blocked and not own:
        return found
    p, v, g = schema.persons, schema.versions, schema.groups
    ids, groups = [row.id for row in own], [group.id for group in found.groups]
    left = sa.select(p.c.id).where(p.c.group_id.in_(groups), p.c.state == "released", p.c.id.not_in(ids))
    survivors = sorted(db.scalars(left))
    db.execute(sa.delete(v).where(v.c.person_id.in_(ids)))
    db.execute(sa.update(p).where(p.c.id.in_(ids)).values(token=None, salt=None, state="erased"))
    db.execute(sa.update(g).where(g.c.id.in_(groups)).values(state="withdrawn"))
    set_state(db, survivors, "survivor")
    salt = secrets.token_bytes(SALT_BYTES)
    insert(db, b, [{"token": token, "salt": salt}])
    chain.append(
        db,
        "erasure",
        {
            "erasures": _enter(db, own),
            "groups": groups,
            "survivors": survivors,
            "blocked": block_commitment(salt, token),
            "by": acting().to_json(),
        },
    )
    return found


def block_commitment(salt: bytes, token: bytes) -> str:
    """Return the digest of a row of the block-list."""
    return hashlib.sha256(salt + token).hexdigest()


def _enter(db: sa.Connection, own: list[Any]) -> list[dict[str, Any]]:
    """Write which rows were erased and when; of a person who was never released there is one without a row."""
    first, at = chain.next_id(db, schema.erasures.c.id), chain.now()
    pairs = [(row.id, row.group_id) for row in own] or [(None, None)]
    rows = [
        {"id": first + n, "person_id": person, "group_id": group, "at": at}
        for n, (person, group) in enumerate(pairs)
    ]
    insert(db, schema.erasures, rows)
    return rows


def _rows_of(db: sa.Connection, token: bytes) -> list[Any]:
    p = schema.persons
    return list(db.execute(sa.select(p.c.id, p.c.group_id).where(p.c.token == token).order_by(p.c.id)))


def _live_groups(db: sa.Connection, ids: list[int]) -> list[Group]:
    g = schema.groups
    wanted = sa.select(g).where(g.c.id.in_(ids), g.c.state == "live").order_by(g.c.id)
    return [Group(*row) for row in db.execute(wanted)]
