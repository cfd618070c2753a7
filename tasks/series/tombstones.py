"""Replace a withdrawn release by its tombstone: the ledger says what is withdrawn, and the files follow.

The ledger's entry comes first and holds everything that the tombstone says. So whatever process dies in between, the
next one that holds the store's lock completes the files (`settle`). A release exists exactly when its manifest.json
does: the manifest is the first file that leaves, after the tombstone is in place.
"""

import shutil
from pathlib import Path
from typing import Any

from tasks.series.ledger import Ledger
from tasks.series.rows import PublishedRelease
from tasks.store import (
    Store,
    make_private,
    owner_only,
    read_json,
    restrict,
    sync_directory,
    sync_path,
    write_json,
)

TOMBSTONE = "tombstone.json"
RECORD = "withdrawal.json"  # the owner's
ERASURE = (
    "groups of this release were withdrawn because people left"  # a reason that `murmur withdraw` refuses
)
WITHDRAWN = "withdrawn"  # directory of the owner's that takes the public files


def public_place(store: Store, release: PublishedRelease) -> Path:
    """Return where a release is, or was, offered."""
    return store.root / "published" / release.name / release.directory


def private_place(store: Store, release: PublishedRelease) -> Path:
    """Return the owner's directory of a release."""
    return store.root / "private" / release.name / release.directory


def settle(ledger: Ledger, store: Store) -> list[PublishedRelease]:
    """Put a tombstone in the place of every withdrawn release that has none yet; return these releases.

    Call it under the store's lock.
    """
    found = []
    for release, reason, at in ledger.withdrawals():
        if not _is_settled(store, release):
            _bury(store, release, tombstone_of(release, reason, at))
            found.append(release)
    return found


def tombstone_of(release: PublishedRelease, reason: str, at: str) -> dict[str, Any]:
    """Return what tombstone.json says; `manifest` is the digest by which the ledger knows the release."""
    return {
        "release": release.name,
        "snapshot": release.snapshot,
        "directory": release.directory,
        "reason": reason,
        "withdrawn_at": at,
        "manifest": release.manifest,
    }


def event_of(tombstone: dict[str, Any]) -> dict[str, Any]:
    """Return the asset and what its event carries when a release is withdrawn."""
    facts = {name: tombstone[name] for name in ("snapshot", "directory", "reason", "withdrawn_at")}
    extra = {"state": "withdrawn", **facts, "release_digest": tombstone["manifest"]}
    return {"asset": f"murmur://{tombstone['release']}", "extra": extra}


def _is_settled(store: Store, release: PublishedRelease) -> bool:
    place = public_place(store, release)
    there = {file.name for file in place.iterdir()} if place.is_dir() else set()
    return there == {TOMBSTONE} and (private_place(store, release) / RECORD).exists()


def _bury(store: Store, release: PublishedRelease, tombstone: dict[str, Any]) -> None:
    published, private = public_place(store, release), private_place(store, release)
    for directory in (published.parent.parent, published.parent, published):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
    make_private(private / WITHDRAWN, below=store.root)
    for directory in (published, private / WITHDRAWN):
        sync_path(directory, below=store.root)
    write_json(published / TOMBSTONE, tombstone)
    (published / TOMBSTONE).chmod(0o644)
    crash_point("tombstone")
    first = [published / "manifest.json"] if (published / "manifest.json").exists() else []
    rest = sorted(file for file in published.iterdir() if file.name not in (TOMBSTONE, "manifest.json"))
    for file in (*first, *rest):
        # A rename where both are on one file system; else the public file goes after it was copied.
        shutil.move(file, private / WITHDRAWN / file.name)
        crash_point("moved a file")
    restrict(private / WITHDRAWN)
    for directory in (private / WITHDRAWN, published):
        sync_directory(directory)
    with owner_only():
        manifest = private / WITHDRAWN / "manifest.json"
        files = read_json(manifest)["files"] if manifest.exists() else {}
        write_json(private / RECORD, {**tombstone, "files": files, "event": event_of(tombstone)})
    (private / RECORD).chmod(0o600)


def crash_point(name: str) -> None:
    """Do nothing; tests stop here."""
