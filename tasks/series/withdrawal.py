"""Withdraw a release: a tombstone with the reason takes its place. It still counts, since it was public.

Later releases go on carrying its groups over, and who was in it stays in the ledger: what was published once is known.
"""

import re
from collections.abc import Iterator
from typing import Any

from tasks.errors import UsageError
from tasks.series.ledger import Ledger
from tasks.series.publication import exclusive
from tasks.series.tombstones import (
    ERASURE,
    TOMBSTONE,
    WITHDRAWN,
    crash_point,
    event_of,
    private_place,
    public_place,
    settle,
)
from tasks.store import Store, read_json

LONGEST_REASON = 200  # characters


def withdraw(store: Store, population: str, name: str, snapshot: str, reason: str) -> dict[str, Any]:
    """Withdraw the offered release of a snapshot; return the answer of `murmur withdraw`.

    A release that was withdrawn already stays as it is: the answer then has its first reason.
    """
    where = f"release {name}, snapshot {snapshot}"
    if not Ledger.exists(store, population):
        raise _never_published(where)
    with exclusive(store, population) as ledger:
        settle(ledger, store)
        release = ledger.find(name, snapshot)
        if release is None:
            raise _never_published(where)
        is_new = release.state == "published"
        if is_new:
            _require_harmless(ledger, reason)
            ledger.withdraw(release.id, reason)
            crash_point("entered")
            settle(ledger, store)
        published, private = public_place(store, release), private_place(store, release)
        tombstone = read_json(published / TOMBSTONE)
        return {
            "status": "withdrawn" if is_new else "withdrawn already",
            "tombstone": str(published / TOMBSTONE),
            "files": str(private / WITHDRAWN),
            **tombstone,
            "carried_over_later": sum(group.state == "live" for group in _groups(ledger, release.id)),
            "event": event_of(tombstone),
        }


def _groups(ledger: Ledger, release_id: int) -> Iterator[Any]:
    listed = ledger.listed(release_id)
    return (group for group in ledger.groups(state=None) if group.id in listed)


def _never_published(where: str) -> UsageError:
    return UsageError(
        "this snapshot was never published",
        where=where,
        remedy="check --snapshot, --store and series.population; `murmur ledger` lists what was published",
    )


def _require_harmless(ledger: Ledger, reason: str) -> None:
    """Refuse a reason that must not stand in public: nothing, too much, or a source id among its words."""
    where = "--reason"
    if not reason.strip() or len(reason) > LONGEST_REASON or not reason.isprintable():
        raise UsageError(
            f"the reason must be one line of 1 to {LONGEST_REASON} characters",
            where=where,
            remedy="shorten it; it is published in tombstone.json",
        )
    if reason == ERASURE:
        raise UsageError(
            "this reason is reserved for erasure",
            where=where,
            remedy="use `murmur erase`, or word it differently",
        )
    known = {*ledger.memberships()[0], *ledger.blocked()}
    if not known.isdisjoint(ledger.tokens(_stretches(reason))):
        raise UsageError(
            "the reason contains a source id, and it would be published",
            where=where,
            remedy="word it without ids and numbers",
        )


def _stretches(text: str) -> set[str]:
    """Return every stretch of whole words, in the cases in which an id may be written."""
    cuts = [at for at in range(len(text) + 1) if not re.fullmatch(r"\w\w", text[max(at - 1, 0) : at + 1])]
    found = {text[a:b] for a in cuts for b in cuts if a < b}
    return {form for one in found for form in (one, one.lower(), one.upper())}
