"""Keep the ledger of a population: what was ever published about its people (docs/series.md, "The ledger").

A release enters in two transactions: `prepare` writes that it is about to be published and refuses what the ledger
does not allow, `commit` enters it once it is in its place, and `pending` finds what a crash left between the two
(tasks/series/publication.py completes or removes it).
"""

import contextlib
import hmac
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa

from tasks.data.actor import acting
from tasks.errors import MurmurError, Refused
from tasks.series import (
    budget,
    chain,
    departure,
    entering,
    file_check,
    refused_cohorts,
    schema,
    verification,
    versions,
)
from tasks.series.database import Database, directory_of_ledgers, open_database
from tasks.series.rows import Entry, Erased, Group, PublishedRelease, RefusedCohort, Spent
from tasks.store import Store

TOKEN_BYTES = 16
ROWS_AT_ONCE = 10_000
FIXED_AT_ENTRY = ("name", "snapshot", "revision", "manifest", "source", "mode", "k", "code")


class Ledger:
    """Hold an open ledger. Releases are numbered in the order of publication; `before` means: before that release."""

    def __init__(self, database: Database, key: bytes, population: str) -> None:
        self._database, self._key, self.population = database, key, population

    @classmethod
    @contextlib.contextmanager
    def open(cls, store: Store, population: str) -> Iterator["Ledger"]:
        """Open the ledger of a population; it is made where there is none. Its chain is verified."""
        with open_database(store, population) as (database, key):
            with database.reading() as db:
                chain.read_chain(db, population)
            yield cls(database, key, population)

    @staticmethod
    def exists(store: Store, population: str) -> bool:
        """Return whether a population has a ledger; `open` would make one."""
        return (directory_of_ledgers(store) / f"{population}.key").exists()

    def tokens(self, ids: Iterable[str]) -> list[bytes]:
        """Return the keyed digests by which the ledger knows people."""
        key = self._key
        return [hmac.digest(key, one.encode("utf-8", "surrogatepass"), "sha256")[:TOKEN_BYTES] for one in ids]

    @property
    def head(self) -> str:
        """Return the digest of the last entry."""
        with self._database.reading() as db:
            return chain.head_of(db)

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Keep publishers on other machines out of a shared ledger for a while."""
        return self._database.exclusive()

    # What it holds

    def releases(self, before: int | None = None) -> list[PublishedRelease]:
        """Return all releases that were ever public, in the order of publication; withdrawn ones still count."""
        t = schema.releases
        wanted = sa.select(t).where(t.c.state != "prepared").order_by(t.c.id)
        with self._database.reading() as db:
            return [PublishedRelease(*row) for row in db.execute(_before(wanted, t.c.id, before))]

    def find(self, name: str, snapshot: str) -> PublishedRelease | None:
        """Return the newest revision of a snapshot that is not withdrawn, else the newest; None: never published."""
        found = [one for one in self.releases() if (one.name, one.snapshot) == (name, snapshot)]
        offered = [one for one in found if one.state == "published"]
        return max(offered or found, key=lambda one: one.revision, default=None)

    def groups(self, before: int | None = None, state: str | None = "live") -> list[Group]:
        """Return the groups of a state (None: all); `before` looks at their first publication."""
        t = schema.groups
        wanted = sa.select(t)
        if state is not None:
            wanted = wanted.where(t.c.state == state)
        with self._database.reading() as db:
            rows = db.execute(_before(wanted.order_by(t.c.id), t.c.release_id, before))
            return [Group(*row) for row in rows]

    def listed(self, release_id: int) -> dict[int, int]:
        """Return the groups of a release: the number there by the group's id."""
        t = schema.release_groups
        with self._database.reading() as db:
            rows = db.execute(sa.select(t.c.group_id, t.c.number).where(t.c.release_id == release_id))
            return {row.group_id: row.number for row in rows}

    def people(self, before: int | None = None) -> tuple[list[bytes], np.ndarray, list[str]]:
        """Return tokens, group ids and states (released | survivor) of everybody ever released and not erased.

        The group of a person who was pooled is the newer one.
        """
        p, g = schema.persons, schema.groups
        wanted = sa.select(p.c.token, p.c.group_id, p.c.state).where(p.c.state.in_(["released", "survivor"]))
        if before is not None:
            wanted = wanted.join(g, g.c.id == p.c.group_id).where(g.c.release_id < before)
        with self._database.reading() as db:
            rows = db.execute(wanted.order_by(p.c.id)).all()
        tokens = [bytes(row[0]) for row in rows]
        return tokens, np.fromiter((row[1] for row in rows), np.int64, len(rows)), [row[2] for row in rows]

    def memberships(self) -> tuple[list[bytes], np.ndarray]:
        """Return (token, group id) of everybody in every group who is not erased: twice of a person who was pooled."""
        p = schema.persons
        with self._database.reading() as db:
            wanted = sa.select(p.c.token, p.c.group_id).where(p.c.token.is_not(None)).order_by(p.c.id)
            rows = db.execute(wanted).all()
        return [bytes(row[0]) for row in rows], np.fromiter((row[1] for row in rows), np.int64, len(rows))

    def blocked(self) -> set[bytes]:
        """Return the tokens of people who must never be released again."""
        with self._database.reading() as db:
            return {bytes(token) for token in db.scalars(sa.select(schema.blocked.c.token))}

    def catalogue(self, before: int | None = None) -> list[str]:
        """Return the published items in their order."""
        t = schema.items
        wanted = sa.select(t.c.item).where(t.c.position.is_not(None)).order_by(t.c.position)
        with self._database.reading() as db:
            return list(db.scalars(_before(wanted, t.c.release_id, before)))

    def items(self) -> list[str]:
        """Return every item that any released person rated, by number (not its position in the catalogue)."""
        with self._database.reading() as db:
            return entering.all_items(db)

    def versions(
        self, before: int | None = None, tokens: Collection[bytes] | None = None
    ) -> Iterator[tuple[bytes, int, np.ndarray, np.ndarray]]:
        """Yield (token, group id, item numbers, ratings) as published, of everybody (or of `tokens`) who is not erased.

        Of a person who was pooled both versions are yielded, the older one first.
        """
        p, g, v = schema.persons, schema.groups, schema.versions
        wanted = sa.select(p.c.token, p.c.group_id, v.c.ratings).join(v, v.c.person_id == p.c.id)
        if before is not None:
            wanted = wanted.join(g, g.c.id == p.c.group_id).where(g.c.release_id < before)
        chosen = None if tokens is None else frozenset(tokens)
        if chosen is not None and len(chosen) <= entering.NAMES_AT_ONCE:
            wanted = wanted.where(p.c.token.in_(list(chosen)))
        with self._database.reading() as db:
            rows = db.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted.order_by(p.c.id))
            for row in rows:
                token = bytes(row.token)
                if chosen is None or token in chosen:
                    yield token, row.group_id, *versions.decode(bytes(row.ratings))

    def spent(self) -> list[Spent]:
        """Return what every release with a privacy budget spent, in the order of publication."""
        with self._database.reading() as db:
            return budget.read_spent(db)

    def withdrawals(self) -> list[tuple[PublishedRelease, str, str]]:
        """Return every withdrawn release with the reason and the time, in the order of publication."""
        r, w = schema.releases, schema.withdrawals
        wanted = sa.select(r, w.c.reason, w.c.at).join(w, w.c.release_id == r.c.id).order_by(r.c.id)
        with self._database.reading() as db:
            return [(PublishedRelease(*row[:-2]), row[-2], row[-1]) for row in db.execute(wanted)]

    def log(self) -> list[tuple[str, dict[str, Any]]]:
        """Return kind and body of every entry of the chain: what was published, withdrawn and erased, when, by whom."""
        with self._database.reading() as db:
            return chain.read_chain(db, self.population)

    def erasures(self) -> int:
        """Return how many people were erased."""
        return sum(kind == "erasure" for kind, _ in self.log())

    # What is published

    def prepare(self, entry: Entry) -> int:
        """Write that a release is about to be published and return its id; refuse what the ledger does not allow."""
        t = schema.releases
        with self._database.writing() as db:
            self._require_none_pending(db)
            if (head := chain.head_of(db)) != entry.head:
                raise Refused(
                    "this population's ledger has moved since the release was planned: something was published, "
                    "withdrawn or erased meanwhile",
                    where=f"ledger {self.population}, head {head[:12]}",
                    remedy="run it again; it is then planned against the present ledger",
                )
            same = [getattr(t.c, name) == getattr(entry, name) for name in ("name", "snapshot", "revision")]
            if db.scalar(sa.select(t.c.id).where(*same)) is not None:
                raise Refused(
                    "this snapshot is published already",
                    where=f"ledger {self.population}",
                    remedy="a published release never changes; publish a new snapshot instead",
                )
            entering.require_allowed(db, self.population, entry)
            row = {name: getattr(entry, name) for name in FIXED_AT_ENTRY}
            release_id = chain.next_id(db, t.c.id)
            db.execute(
                sa.insert(t).values(id=release_id, state="prepared", head_before=entry.head, **row),
            )
        return release_id

    def pending(self) -> list[PublishedRelease]:
        """Return the releases that were prepared and neither committed nor abandoned."""
        with self._database.reading() as db:
            return _pending(db)

    def abandon(self, release_id: int) -> None:
        """Forget a release that was prepared and never became public."""
        t = schema.releases
        with self._database.writing() as db:
            db.execute(sa.delete(t).where(t.c.id == release_id, t.c.state == "prepared"))

    def commit(self, entry: Entry, approval: dict[str, Any] | None = None) -> None:
        """Enter a prepared release that is in its place, with who published it and who had approved it."""
        t = schema.releases
        with self._database.writing() as db:
            same = {"head_before": entry.head} | {name: getattr(entry, name) for name in FIXED_AT_ENTRY}
            wanted = [t.c[name] == value for name, value in same.items()]
            release_id = db.scalar(sa.select(t.c.id).where(*wanted, t.c.state == "prepared"))
            if release_id is None:
                raise MurmurError("this release was not prepared", where=f"ledger {self.population}")
            if chain.head_of(db) != entry.head:
                raise MurmurError(
                    "the ledger moved during a publication",
                    where=f"ledger {self.population}",
                    remedy="restore the ledger from a backup; something wrote to it without the store's lock",
                )
            body = entering.enter(db, release_id, entry)
            db.execute(sa.update(t).where(t.c.id == release_id).values(state="published"))
            chain.append(db, "release", {**body, "by": acting().to_json(), "approval": approval})
            refused_cohorts.forget_released(db)

    # What the gate refused

    def enter_refused(self, cohort: RefusedCohort, tokens: Iterable[bytes]) -> None:
        """Write that the gate refused these newcomers; the same attempt a second time changes nothing."""
        with self._database.writing() as db:
            refused_cohorts.enter(db, cohort, tokens)

    def times_refused(self, name: str, snapshot: str, tokens: Iterable[bytes]) -> int:
        """Return how many cohorts with any of these people the gate refused at other snapshots."""
        with self._database.reading() as db:
            return refused_cohorts.count_sharing(db, name, snapshot, tokens)

    # What is taken back

    def withdraw(self, release_id: int, reason: str) -> None:
        """Write that a release is no longer offered; it still counts, since it was public."""
        with self._database.writing() as db:
            self._require_none_pending(db)
            departure.withdraw(db, self.population, release_id, reason)

    def erase(self, token: bytes) -> Erased:
        """Remove a person, withdraw the person's group and block the person for ever; return what that touches.

        The releases that offer the group are still marked as published: `withdraw` each.
        """
        with self._database.writing() as db:
            self._require_none_pending(db)
            erased = departure.erase(db, token)
        self._database.forget_removed()
        return erased

    def would_erase(self, token: bytes) -> Erased:
        """Return what `erase` would touch; nothing is changed."""
        with self._database.reading() as db:
            return departure.touched(db, token)

    # Verification

    def problems(self, store: Store | None = None) -> list[str]:
        """Recompute everything that the chain commits to, from rows and (with a store) files; return what is wrong."""
        with self._database.reading() as db:
            found = verification.row_problems(db, self.population)
        if store is not None:
            found += file_check.file_problems(self, store)
        return found

    def _require_none_pending(self, db: sa.Connection) -> None:
        if _pending(db):
            raise MurmurError(
                "a publication of this population was interrupted or is under way",
                where=f"ledger {self.population}",
                remedy="run it again; it is then completed or removed first",
            )


def _before(wanted: sa.Select[Any], column: sa.Column[Any], before: int | None) -> sa.Select[Any]:
    return wanted if before is None else wanted.where(column < before)


def _pending(db: sa.Connection) -> list[PublishedRelease]:
    t = schema.releases
    return [PublishedRelease(*row) for row in db.execute(sa.select(t).where(t.c.state == "prepared"))]
