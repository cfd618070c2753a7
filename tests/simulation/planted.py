"""Plant faults in the real code: each is a mistake that somebody could make, and some are mistakes that were made."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import sqlalchemy as sa

from tasks.series import budget, entering, erasure, publication, schema, spending, tombstones
from tasks.series.ledger import Ledger
from tasks.store import remove, write_json

Plant = contextlib.AbstractContextManager[Any]


@dataclass(frozen=True)
class Fault:
    """Hold a fault: how it is planted, and a part of what the simulation must say.

    `alone` names who must work alone, where the fault needs a power failure at one step of many: all are tried. `first`
    is the seed to begin with, where many schedules do not show the fault.
    """

    plant: Callable[[], Plant]
    words: str
    alone: str | None = None
    first: int = 1


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _replaced(*places: tuple[Any, str, Any]) -> Callable[[], Plant]:
    @contextlib.contextmanager
    def plant() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for place, name, value in places:
                stack.enter_context(mock.patch.object(place, name, value))
            yield

    return plant


def _open_at_once(store, places, manifest, progress, code) -> None:
    """Rename a release that readers may open, before anything is synced."""
    arriving, published = places.arriving, places.published
    publication._copy(places.candidate, arriving, manifest, code)
    publication._keep_private(places.owner, places.private)
    publication.sync_path(places.private, below=store.root)
    arriving.chmod(0o755)
    remove(published)
    arriving.rename(published)
    publication.sync_path(published.parent, below=store.root)


def _copy_into_place(store, places, manifest, progress, code) -> None:
    """Put the files where readers see them, one after the other."""
    publication._keep_private(places.owner, places.private)
    publication.sync_path(places.private, below=store.root)
    places.published.mkdir(parents=True, exist_ok=True)
    places.published.parent.chmod(0o755)
    places.published.chmod(0o755)
    write_json(places.published / "manifest.json", manifest)
    for name in manifest["files"]:
        shutil.copyfile(places.candidate / name, places.published / name)


def _owner_last(store, places, manifest, progress, code) -> None:
    """Keep the owner's files after the public ones are open."""
    arriving, published = places.arriving, places.published
    publication._copy(places.candidate, arriving, manifest, code)
    remove(published)
    arriving.rename(published)
    publication._open_to_readers(store, published)
    publication._keep_private(places.owner, places.private)


def _commit_first(ledger, store, places, manifest, progress, *, code) -> None:
    """Commit to the ledger before the release is in its place."""
    if publication._is_published(places.published, manifest):
        return
    digest = publication.manifest_digest(manifest)
    entry = publication._entry(ledger, places.owner / publication.ENTRY, places.published, digest, code)
    ledger.prepare(entry)
    ledger.commit(entry)
    publication._put_in_place(store, places, manifest, progress, code)
    remove(places.private / publication.ENTRY)


def _without_head(entry_of: Callable[..., Any]) -> Callable[..., Any]:
    """Plan against whatever the ledger is now: groups that came meanwhile are left out, and nobody notices."""

    def read(place, ledger, **named):
        entry = entry_of(place, ledger, **named)
        return type(entry)(**{**entry.__dict__, "head": ledger.head})

    return read


def _of_offered(read: Callable[..., Any]) -> Callable[..., Any]:
    """Count what releases spent that are offered now."""

    def found(db: Any) -> list[Any]:
        states = dict(db.execute(sa.select(schema.releases.c.id, schema.releases.c.state)).all())
        return [one for one in read(db) if states[one.release_id] != "withdrawn"]

    return found


def _manifest_first(store, release, tombstone) -> None:
    """Move the files away before the tombstone stands there."""
    published, private = tombstones.public_place(store, release), tombstones.private_place(store, release)
    (private / tombstones.WITHDRAWN).mkdir(mode=0o700, exist_ok=True)
    for file in sorted(published.iterdir()):
        shutil.move(file, private / tombstones.WITHDRAWN / file.name)
    write_json(published / tombstones.TOMBSTONE, tombstone)
    write_json(private / tombstones.RECORD, tombstone)


def _forget_pending(self, release_id) -> None:
    """Leave what was prepared."""


FAULTS = {
    "a released file is not synced": Fault(_replaced((publication, "_flush", nothing)), ""),
    "directories are not synced": Fault(
        _replaced((publication, "sync_path", nothing), (publication, "sync_directory", nothing)), ""
    ),
    "open to readers before it is durable": Fault(
        _replaced((publication, "_put_in_place", _open_at_once)),
        "",
        alone="publisher 1",
    ),
    "copied into place": Fault(_replaced((publication, "_put_in_place", _copy_into_place)), ""),
    "the owner's files last": Fault(
        _replaced((publication, "_put_in_place", _owner_last)), "public before the owner knows"
    ),
    "committed before the rename": Fault(_replaced((publication, "publish_within", _commit_first)), ""),
    "no recovery": Fault(_replaced((publication, "_recover", nothing)), ""),
    "no lock": Fault(_replaced((publication, "_locked", lambda store: contextlib.nullcontext())), ""),
    "neither the head nor the people are compared": Fault(
        _replaced(
            (entering, "_require_new_people", nothing),
            (publication, "read_entry", _without_head(publication.read_entry)),
        ),
        "",
    ),
    "an erasure waits for nobody": Fault(
        _replaced((erasure.under_way, "alone", lambda *_: contextlib.nullcontext())),
        "names an erased person",
        first=55,
    ),
    "the budget is not asked": Fault(
        _replaced((budget, "require_within", nothing), (spending, "require_within", nothing)),
        "spent more than the budget",
    ),
    "a withdrawn release gives its budget back": Fault(
        _replaced((budget, "read_spent", _of_offered(budget.read_spent))),
        "spent more than the budget",
        first=208,
    ),
    "a damaged release stays": Fault(_replaced((erasure, "withdraw_damaged", nothing)), ""),
    "files keep the id": Fault(
        _replaced((erasure, "forget", lambda directories, stand_ins: erasure.Cleaned(0, 0))),
        "names an erased person",
    ),
    "removed files are not synced away": Fault(
        _replaced((erasure, "sync_directories", nothing)), "names an erased person", first=188
    ),
    "files leave before the tombstone": Fault(
        _replaced((tombstones, "_bury", _manifest_first)), "without a tombstone"
    ),
    "what was prepared is never abandoned": Fault(_replaced((Ledger, "abandon", _forget_pending)), ""),
}
