"""Publish a candidate: one transaction joins the store and the ledger, whatever process dies in between.

prepare (the ledger says what is about to appear) → the owner's files → rename into published/ → open it to readers →
commit (the ledger has it). A crash before the rename leaves nothing public, and the next run removes the rest; a crash
after it is completed by the next run from the owner's copy of the entry. Only a release that a power failure can no
longer take back is opened: else somebody might hold what the ledger has forgotten. Everything happens under the
store's lock.
"""

import contextlib
import datetime
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.data.approval import approval_of, require_signatures
from tasks.errors import MurmurError, Refused, room_in
from tasks.series.entry import has_entry, population_of, read_entry
from tasks.series.file_check import unknown_releases
from tasks.series.forgotten import require_nothing_forgotten
from tasks.series.ledger import Ledger
from tasks.series.manifests import comparable, manifest_digest
from tasks.series.rows import Entry, PublishedRelease, parse_directory
from tasks.series.tombstones import settle
from tasks.signatures.owner_keys import sign_release
from tasks.signatures.statement import SIGNATURE
from tasks.store import Store, digest, read_json, remove, restrict, sync_directory, sync_path, write_json

LOCK_SECONDS = 600
OWNER_FILES = (
    "utility",
    "membership.parquet",
    "verdict.json",
    "validation.json",
    "added.parquet",
    "curve.json",
    "series.json",
    "refused_cohort",
    "spent.json",
    "report.html",  # with figures that the public one must not have
)
ENTRY = "ledger"  # the directory of what the ledger is to record; gone once it has

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Places:
    """Hold where a release comes from and where it goes."""

    candidate: Path  # its public files
    owner: Path  # the owner's files, with the entry for the ledger
    published: Path
    private: Path
    recorded: bool = False  # a ledger records the release, so that it needs an entry

    @property
    def arriving(self) -> Path:
        """Return where the public files are put together, beside their place."""
        return _arriving(self.published)


def publish(
    validated: Path, published: Path, private: Path, store: Store, progress: Progress, *, code: str
) -> dict[str, Any]:
    """Publish what the step `validate` left, or find that it is published already; return the candidate's manifest.

    `code` is the version of the program, for manifest and ledger.
    """
    places = Places(validated / "candidate", validated / "private", published, private)
    if has_entry(places.owner / ENTRY):
        with exclusive(store, population_of(places.owner / ENTRY)) as ledger:
            # Inside the lock: another run may have written here while this one waited.
            manifest = _manifest_as_judged(validated)
            require_signatures(store, published, private, validated)
            progress(1, 4)
            publish_within(ledger, store, places, manifest, progress, code=code)
    else:
        with _locked(store):
            manifest = _manifest_as_judged(validated)
            if has_entry(places.owner / ENTRY):  # made again while this run waited: the ledger must know it
                raise Refused(
                    "the candidate was made again meanwhile", where=str(validated), remedy="run it again"
                )
            require_signatures(store, published, private, validated)
            progress(1, 4)
            if not _is_published(published, manifest):
                store.storage.discard(published)  # what a crash may have left without a manifest
                _put_in_place(store, places, manifest, progress, code)
    return manifest


@contextlib.contextmanager
def exclusive(store: Store, population: str) -> Iterator[Ledger]:
    """Open a ledger that nobody else publishes to meanwhile, after an interrupted publication is dealt with.

    Withdrawal and erasure use this, too. It cannot be entered twice: inside, call `publish_within`.
    """
    with _locked(store), Ledger.open(store, population) as ledger, ledger.exclusive():
        _recover(ledger, store)
        require_nothing_forgotten(store, ledger)
        yield ledger


@contextlib.contextmanager
def quiet(store: Store) -> Iterator[None]:
    """Keep publication, withdrawal and erasure by this machine out for a while, as a backup needs it."""
    with _locked(store):
        yield


def recover(store: Store, population: str) -> list[str]:
    """Complete or remove what an interrupted publication left; return which releases were completed, by directory.

    A store without a ledger of this population stays as it is.
    """
    if not Ledger.exists(store, population):
        return []
    with _locked(store), Ledger.open(store, population) as ledger, ledger.exclusive():
        return _recover(ledger, store)


def publish_within(
    ledger: Ledger, store: Store, places: Places, manifest: dict[str, Any], progress: Progress, *, code: str
) -> None:
    """Publish under a lock that is held (`exclusive`), unless the same release is published already."""
    if _is_published(places.published, manifest):
        return
    name = places.published.parent.name
    if unknown := list(unknown_releases(ledger, store, {name})):
        raise Refused(
            f"{len(unknown)} published release(s) of this name are not in the ledger, so nothing can be planned "
            "against them",
            where=str(places.published.parent),
            remedy="restore the ledger from a backup; releases made before there was a ledger need a name and a "
            "population of their own, which this one must not share",
        )
    entry = _entry(ledger, places.owner / ENTRY, places.published, manifest_digest(manifest), code)
    release_id = ledger.prepare(entry)
    try:
        _crash_point("prepared")
        _put_in_place(store, replace(places, recorded=True), manifest, progress, code)
    except BaseException:
        if not store.storage.has(places.published / "manifest.json"):
            ledger.abandon(release_id)
            remove(places.private / ENTRY)
        raise
    ledger.commit(entry, approval_of(places.private))
    _crash_point("committed")
    remove(places.private / ENTRY)


def _crash_point(name: str) -> None:
    """Do nothing; tests kill the process here."""


@contextlib.contextmanager
def _locked(store: Store) -> Iterator[None]:
    try:
        lock = contextlib.ExitStack()
        lock.enter_context(store.storage.lock(store.lock_file(), LOCK_SECONDS))
    except TimeoutError:
        raise MurmurError(
            f"another publication has held the store for {LOCK_SECONDS} s",
            where=str(store.lock_file()),
            remedy="wait for it to finish and run this step again",
        ) from None
    with lock:
        store.storage.refresh()
        try:
            yield
        finally:
            for part in ("private", "published"):
                store.storage.save(store.root / part)


def _recover(ledger: Ledger, store: Store) -> list[str]:
    completed = []
    settle(ledger, store)
    for release in ledger.pending():
        published = store.root / "published" / release.name / release.directory
        kept = store.root / "private" / release.name / release.directory / ENTRY
        remove(_arriving(published))
        _remove_temporary(kept.parent)
        if _is_in_place(published, release):
            if not has_entry(kept):
                raise MurmurError(
                    "a release is public, and what the ledger must record about it is gone",
                    where=str(kept),
                    remedy="restore this directory from a backup; nothing is published before that",
                )
            _open_to_readers(store, published)
            entry = _entry(ledger, kept, published, release.manifest, release.code)
            ledger.commit(entry, approval_of(kept.parent))
            completed.append(release.directory)
        else:
            if not _was_public(published):
                remove(published)
            ledger.abandon(release.id)
        remove(kept)
    for release in ledger.releases():  # a crash after the commit
        remove(store.root / "private" / release.name / release.directory / ENTRY)
    return completed


def _is_in_place(published: Path, release: PublishedRelease) -> bool:
    path = published / "manifest.json"
    return path.exists() and manifest_digest(read_json(path)) == release.manifest


def _was_public(published: Path) -> bool:
    return any((published / name).exists() for name in ("manifest.json", "tombstone.json"))


def _entry(ledger: Ledger, place: Path, published: Path, manifest: str, code: str) -> Entry:
    named = parse_directory(published.name)
    if named is None:
        raise MurmurError("this is no directory of a release", where=str(published))
    snapshot, revision = named
    return read_entry(
        place,
        ledger,
        name=published.parent.name,
        snapshot=snapshot,
        revision=revision,
        manifest=manifest,
        code=code,
    )


def _is_published(published: Path, manifest: dict[str, Any]) -> bool:
    """Return whether this release is published; refuse to change a published snapshot."""
    if (published / "tombstone.json").exists():
        raise Refused(
            "this snapshot was published and withdrawn",
            where=str(published),
            remedy="a withdrawn release never returns; publish a new snapshot instead",
        )
    if not (published / "manifest.json").exists():
        return False
    if comparable(read_json(published / "manifest.json")) != comparable(manifest):
        raise Refused(
            "this snapshot is published already, with other content",
            where=str(published),
            remedy="a published release never changes; publish a new snapshot instead",
        )
    _require_unchanged(published, manifest)
    return True


def _put_in_place(
    store: Store, places: Places, manifest: dict[str, Any], progress: Progress, code: str
) -> None:
    """Copy the files, the owner's before any is public, and sign them where the owner signs; the rename makes the
    release visible as a whole."""
    arriving, published = places.arriving, places.published
    try:
        with room_in(published.parent):
            _copy(places.candidate, arriving, manifest, code)
            if sign_release(store, arriving):
                (arriving / SIGNATURE).chmod(0o644)
        progress(2, 4)
        _crash_point("copied")
        _keep_private(places.owner, places.private)
        _require_kept(places.private, manifest, recorded=places.recorded)
        sync_path(places.private, below=store.root)
        progress(3, 4)
        _crash_point("kept")
        store.storage.reveal(arriving, published)
        _crash_point("renamed")
    finally:
        remove(arriving)  # it is in a public directory
    _open_to_readers(store, published)
    _crash_point("synced")


def _open_to_readers(store: Store, published: Path) -> None:
    """Let others read a release once its place is durable."""
    sync_path(published.parent, below=store.root)
    published.chmod(0o755)
    sync_directory(published)  # the mode is part of it


def _manifest_as_judged(validated: Path) -> dict[str, Any]:
    """Return the candidate's manifest; refuse a candidate of which any byte differs from what the gate examined.

    The files it lists are large and are verified after they are copied: here their recorded digests must agree.
    """
    closed = read_json(validated / "step.json")["files"]
    manifest = read_json(validated / "candidate" / "manifest.json")
    listed = {f"candidate/{name}": expected for name, expected in manifest["files"].items()}
    there = {str(f.relative_to(validated)) for f in validated.rglob("*") if f.is_file() and f.name[0] != "."}
    rest = {name: digest(validated / name) for name in there - set(listed) - {"step.json"}}
    if rest | listed != closed:
        raise Refused(
            "the candidate is not what the gate examined",
            where=str(validated),
            remedy="find out who changed it, then run validate again",
        )
    return manifest


def _require_unchanged(directory: Path, manifest: dict[str, Any]) -> None:
    for name, expected in manifest["files"].items():
        if digest(directory / name) != expected:
            raise Refused(
                f"{name} is not what the gate examined",
                where=str(directory),
                remedy="find out who changed it; a release never changes",
            )


def _require_kept(private: Path, manifest: dict[str, Any], *, recorded: bool) -> None:
    """Refuse a release whose owner would not know who is in it, or the ledger what to record.

    A run that makes the candidate again meanwhile removes these files; `recorded`: the ledger needs an entry.
    """
    membership = private / "membership.parquet"
    if (manifest["counts"]["users"] and not membership.exists()) or (
        recorded and not has_entry(private / ENTRY)
    ):
        raise Refused(
            "the owner's files of the candidate are gone, so nothing was published",
            where=str(private),
            remedy="run it again: another run of this snapshot has made the candidate anew",
        )


def _keep_private(source: Path, target: Path) -> None:
    """Copy the owner's files; the mapping from users to pseudonyms must be stored before anything is public."""
    _remove_temporary(target)
    for name in (*OWNER_FILES, ENTRY):
        _remove_any(target / name)  # of an earlier attempt
        if not (source / name).exists():
            continue
        temporary = target / f".{name}"
        try:
            if (source / name).is_dir():
                shutil.copytree(source / name, temporary)
                restrict(temporary)
            else:
                shutil.copy2(source / name, temporary)
                temporary.chmod(0o600)
            _flush(temporary)
            temporary.replace(target / name)
        except BaseException:
            _remove_any(temporary)
            raise
        _crash_point(f"kept {name}")


def _remove_temporary(private: Path) -> None:
    """Remove copies of the owner's files that a crash left half made."""
    for name in (*OWNER_FILES, ENTRY):
        _remove_any(private / f".{name}")


def _remove_any(path: Path) -> None:
    path.unlink(missing_ok=True) if path.is_file() else remove(path)


def _copy(candidate: Path, arriving: Path, manifest: dict[str, Any], code: str) -> None:
    """Copy the candidate beside its final place, manifest last."""
    for directory in (arriving.parent.parent, arriving.parent):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
    remove(arriving)
    arriving.mkdir()
    arriving.chmod(0o700)  # the owner's until the mapping is stored, too
    for name in manifest["files"]:
        shutil.copyfile(candidate / name, arriving / name)
        _flush(arriving / name)
        _crash_point(f"copied {name}")
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
    write_json(arriving / "manifest.json", {**manifest, "created_at": now, "code_version": code})
    for file in arriving.iterdir():
        file.chmod(0o644)
    _require_unchanged(arriving, manifest)
    sync_directory(arriving)


def _arriving(published: Path) -> Path:
    return published.with_name(f".{published.name}.arriving")


def _flush(path: Path) -> None:
    """Make a file, or a directory with all that is in it, survive a power failure."""
    for place in (path, *path.rglob("*")) if path.is_dir() else [path]:
        if place.is_dir():
            sync_directory(place)
        else:
            with place.open("rb+") as handle:
                os.fsync(handle.fileno())
