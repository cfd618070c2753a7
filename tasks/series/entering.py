"""Enter a release into the ledger's tables: what must hold before it is public, and the rows it adds."""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from tasks.errors import MurmurError, Refused
from tasks.series import budget, chain, schema, versions
from tasks.series.rows import SYNTHETIC, Entry, NewPersons

SALT_BYTES = 16
ROWS_AT_ONCE = 16_384  # a quarter of what StoredVersions reads at once
NAMES_AT_ONCE = 500


def require_allowed(db: sa.Connection, population: str, entry: Entry) -> None:
    """Refuse a release that the ledger does not allow; nothing of it is public yet."""
    where = f"ledger {population}"
    if entry.mode == SYNTHETIC:
        _require_budget(db, population, where, entry)
    else:
        _require_one_independent(db, where, entry)
    _require_whole_groups(db, where, entry)
    if len(set(entry.items)) < len(entry.items) or set(entry.items) & set(_catalogue(db)):
        raise _broken("an item would enter the catalogue twice", where)
    last = len(numbered_items(all_items(db), entry.items, entry.other_items))
    if any(versions.last_item(version) >= last for version in entry.persons.versions):
        raise _broken("somebody's ratings are of items that the release does not name", where)
    _require_new_people(db, where, entry)


def _require_budget(db: sa.Connection, population: str, where: str, entry: Entry) -> None:
    """Refuse a release of synthetic rows that is about somebody in particular, costs too much, or was made of the
    ratings of a person who has been erased since."""
    if entry.budget is None or entry.carried or entry.groups or entry.items or len(entry.persons.tokens):
        raise _broken("a release of synthetic rows would enter people, or no budget", where)
    tokens = {bytes(token) for token in db.scalars(sa.select(schema.blocked.c.token))}
    if entry.blocked != budget.digest_of_tokens(tokens):
        raise Refused(
            "somebody was erased since this release was planned, and may be in the ratings it was made of",
            where=where,
            remedy="run it again; it is then made without erased people",
        )
    budget.require_within(budget.read_spent(db), entry.budget, population, entry.snapshot)


def _require_one_independent(db: sa.Connection, where: str, entry: Entry) -> None:
    """Refuse a second release where one is independent: its groups are not those of the other, so they intersect."""
    if entry.revision > 0 and not entry.groups:
        return  # a repaired release offers some of the same groups again
    r = schema.releases
    about_people = sa.select(r.c.mode, r.c.name, r.c.snapshot).where(r.c.mode != SYNTHETIC)
    earlier = db.execute(about_people.order_by(r.c.id)).all()
    if earlier and "independent" in {entry.mode, *(row.mode for row in earlier)}:
        first = earlier[0]
        raise Refused(
            f'series.mode = "independent" allows one release of a population, and {first.name} {first.snapshot} was '
            "published: two releases with unrelated groups together leave most people below k",
            where=where,
            remedy='publish series with series.mode = "sticky" from their first release on, or give people who were '
            "never released a population of their own (series.population)",
        )


def _require_whole_groups(db: sa.Connection, where: str, entry: Entry) -> None:
    g = schema.groups
    live = set(db.scalars(sa.select(g.c.id).where(g.c.state == "live")))
    carried = [group for group, _ in entry.carried]
    if len(set(carried)) < len(carried) or not live.issuperset(carried):
        raise _broken("a group would be carried over that is not published or that was withdrawn", where)
    numbers = [number for _, number in entry.carried] + [group.number for group in entry.groups]
    places = [group.place for group in entry.groups]
    if len(set(numbers)) < len(numbers) or len(set(places)) < len(places):
        raise _broken("two groups would have the same number or place", where)
    columns = entry.persons
    if not len(columns.tokens) == len(columns.place) == len(columns.versions):
        raise _broken("the columns about people have different lengths", where)
    members = dict(zip(*(a.tolist() for a in np.unique(columns.place, return_counts=True)), strict=True))
    if members != {group.place: group.size for group in entry.groups}:
        raise _broken("a new group's size is not the number of people who enter with it", where)


def _require_new_people(db: sa.Connection, where: str, entry: Entry) -> None:
    """Refuse people who are in the ledger already, except survivors who are pooled for the first time."""
    tokens = set(entry.persons.tokens)
    if len(tokens) < len(entry.persons.tokens):
        raise _broken("a person would be released twice", where)
    blocked = {bytes(token) for token in db.scalars(sa.select(schema.blocked.c.token))}
    if tokens & blocked:
        raise _broken(f"{len(tokens & blocked):,} erased people would be released again", where)
    p, g = schema.persons, schema.groups
    wanted = sa.select(p.c.token, p.c.state, g.c.pool).join(g, g.c.id == p.c.group_id)
    known = [row for row in db.execute(wanted.where(p.c.token.is_not(None))) if bytes(row.token) in tokens]
    waiting = {bytes(row.token) for row in known if row.state == "survivor" and row.pool is None}
    pools = {group.place: group.pool for group in entry.groups}
    pooled = {
        token
        for token, place in zip(entry.persons.tokens, entry.persons.place.tolist(), strict=True)
        if pools[place] is not None
    }
    if len(waiting) < len(known) or waiting != pooled:
        raise _broken("people would be released again who are not survivors that wait to be pooled", where)


def _broken(what: str, where: str) -> Refused:
    return Refused(
        what, where=where, remedy="run it again from the first step; if it happens again, report it"
    )


def enter(db: sa.Connection, release_id: int, entry: Entry) -> dict[str, Any]:
    """Write all rows of a release; return the body of its entry."""
    first = chain.next_id(db, schema.groups.c.id)
    id_of_place = {group.place: first + n for n, group in enumerate(entry.groups)}
    insert(
        db,
        schema.groups,
        [
            {
                "id": id_of_place[group.place],
                "release_id": release_id,
                "place": group.place,
                "size": group.size,
                "profile": group.profile,
                "state": "live",
                "stratum": group.stratum,
                "pool": group.pool,
            }
            for group in entry.groups
        ],
    )
    numbers = [*entry.carried, *((id_of_place[group.place], group.number) for group in entry.groups)]
    rows = [{"release_id": release_id, "group_id": group, "number": number} for group, number in numbers]
    insert(db, schema.release_groups, rows)
    _enter_items(db, release_id, entry)
    pool_of = {id_of_place[one.place]: one.pool for one in entry.groups if one.pool is not None}
    pooled = _leave_old_groups(db, entry, {one.place: one.pool for one in entry.groups}) if pool_of else {}
    _enter_persons(db, id_of_place, entry.persons)
    if entry.budget is not None:
        insert(db, schema.budget, [{"release_id": release_id, **entry.budget._asdict()}])
    return {
        "release_id": release_id,
        "name": entry.name,
        "snapshot": entry.snapshot,
        "revision": entry.revision,
        "manifest": entry.manifest,
        "at": chain.now(),
        "rows": chain.commitments(db, release_id),
        "pools": sorted([*map(list, pool_of.items()), *pooled.get("groups", [])]),
        "pooled": pooled.get("persons", []),
    }


def _leave_old_groups(db: sa.Connection, entry: Entry, pools: dict[int, int | None]) -> dict[str, list[Any]]:
    """Mark survivors as pooled, and their old groups with the pool they went into."""
    pool_of = {
        token: pools[place]
        for token, place in zip(entry.persons.tokens, entry.persons.place.tolist(), strict=True)
    }
    p, g = schema.persons, schema.groups
    rows = db.execute(sa.select(p.c.id, p.c.token, p.c.group_id).where(p.c.state == "survivor"))
    left = [row for row in rows if pool_of.get(bytes(row.token)) is not None]
    groups = {row.group_id: pool_of[bytes(row.token)] for row in left}
    for row in left:
        if groups[row.group_id] != pool_of[bytes(row.token)]:
            raise MurmurError("survivors of one group would go into two pools")
    for group, pool in groups.items():
        db.execute(sa.update(g).where(g.c.id == group).values(pool=pool))
    persons = sorted(row.id for row in left)
    set_state(db, persons, "pooled")
    return {"groups": [[group, pool] for group, pool in groups.items()], "persons": persons}


def set_state(db: sa.Connection, persons: Sequence[int], state: str) -> None:
    """Change the state of some rows of `persons`."""
    p = schema.persons
    for start in range(0, len(persons), NAMES_AT_ONCE):
        some = list(persons[start : start + NAMES_AT_ONCE])
        db.execute(sa.update(p).where(p.c.id.in_(some)).values(state=state))


def all_items(db: sa.Connection) -> list[str]:
    """Return every item that a released person rated, by number."""
    return list(db.scalars(sa.select(schema.items.c.item).order_by(schema.items.c.id)))


def numbered_items(known: Iterable[str], items: Sequence[str], other_items: Sequence[str]) -> dict[str, int]:
    """Return the number of every item after a release: new ones follow in the order of `items`, then `other_items`."""
    return {item: number for number, item in enumerate(dict.fromkeys([*known, *items, *other_items]))}


def _catalogue(db: sa.Connection) -> list[str]:
    t = schema.items
    return list(db.scalars(sa.select(t.c.item).where(t.c.position.is_not(None)).order_by(t.c.position)))


def _enter_items(db: sa.Connection, release_id: int, entry: Entry) -> None:
    t = schema.items
    known = set(all_items(db))
    position = chain.next_id(db, t.c.position, first=0)
    placed = {item: position + n for n, item in enumerate(entry.items)}
    numbers = numbered_items(all_items(db), entry.items, entry.other_items)
    rows = [
        {
            "id": number,
            "item": item,
            "seen_release_id": release_id,
            "position": placed.get(item),
            "release_id": release_id if item in placed else None,
        }
        for item, number in numbers.items()
        if item not in known
    ]
    insert(db, t, rows)
    moved = [{"name": item, "at": placed[item], "by": release_id} for item in entry.items if item in known]
    if moved:
        changed = sa.update(t).where(t.c.item == sa.bindparam("name"))
        db.execute(changed.values(position=sa.bindparam("at"), release_id=sa.bindparam("by")), moved)


def _enter_persons(db: sa.Connection, id_of_place: dict[int, int], persons: NewPersons) -> None:
    last = chain.next_id(db, schema.persons.c.id)
    groups = [id_of_place[place] for place in persons.place.tolist()]
    for start in range(0, len(groups), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        salts = secrets.token_bytes(SALT_BYTES * len(groups[some]))
        rows = []
        rated = persons.versions[some]
        columns = zip(persons.tokens[some], groups[some], rated, strict=True)
        for n, (token, group, ratings) in enumerate(columns):
            salt = salts[n * SALT_BYTES : (n + 1) * SALT_BYTES]
            rows.append(
                {
                    "id": last + start + n,
                    "token": token,
                    "salt": salt,
                    "group_id": group,
                    "state": "released",
                    "commitment": versions.commit(salt, token, group, ratings),
                }
            )
        insert(db, schema.persons, rows)
        data = enumerate(rated, last + start)
        insert(db, schema.versions, [{"person_id": n, "ratings": ratings} for n, ratings in data])


def insert(db: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, if there are any."""
    if rows:
        db.execute(sa.insert(table), rows)
