"""Publish: put the candidate under published/, whole or not at all; it never changes again."""

import datetime
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.retention import sweep
from tasks.errors import MurmurError, Refused, room_in
from tasks.pipeline import Job, code_version
from tasks.store import (
    Store,
    digest,
    digest_of,
    read_json,
    remove,
    restrict,
    sync_directory,
    write_json,
)

RESULT = "publication"
LOCK_SECONDS = 600
OWNER_FILES = ("utility", "membership.parquet", "verdict.json", "validation.json")
OPTIONAL_OWNER_FILES = ("added.parquet", "curve.json")
NOT_COMPARED = ("created_at", "code_version")  # they differ when the same release is made again


class Params(Settings):
    """Hold the release's name and how long intermediates of its snapshots are kept."""

    release: str
    retention_days: int


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    judged: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(release=config.release.name, retention_days=config.release.retention_days)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Publish the validated candidate, or find that it is published already."""
    manifest = publish(job.inputs.judged, job.published, job.private, job.store, job.progress)
    sweep(job.store, job.params.release, job.params.retention_days)
    return {
        **manifest["counts"],
        "published": str(job.published),
        "release_digest": digest_of(_comparable(read_json(job.published / "manifest.json"))),
    }


def publish(
    validated: Path, published: Path, private: Path, store: Store, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Publish what the step `validate` left, or find that it is published already; return the candidate's manifest.

    `murmur approve` calls this, too.
    """
    try:
        with FileLock(store.lock_file(), timeout=LOCK_SECONDS, mode=0o600):
            # Inside the lock: another run may have written here while this one waited.
            manifest = _manifest_as_judged(validated)
            progress(1, 4)
            if (published / "manifest.json").exists():
                _require_same(published, manifest)
            else:
                arriving = published.with_name(f".{published.name}.arriving")
                try:
                    with room_in(published.parent):
                        _copy(validated / "candidate", arriving, manifest)
                    progress(2, 4)
                    _keep_private(validated / "private", private)
                    progress(3, 4)
                    arriving.chmod(0o755)
                    remove(published)  # what a crash may have left without a manifest
                    arriving.rename(published)
                finally:
                    remove(arriving)  # it is in a public directory
                sync_directory(published.parent)
    except Timeout:
        raise MurmurError(
            f"another publication has held the store for {LOCK_SECONDS} s",
            where=str(store.lock_file()),
            remedy="wait for it to finish and run this step again",
        ) from None
    return manifest


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


def _require_same(published: Path, manifest: dict[str, Any]) -> None:
    """Refuse to change a published snapshot; the same content again is no change."""
    if _comparable(read_json(published / "manifest.json")) != _comparable(manifest):
        raise Refused(
            "this snapshot is published already, with other content",
            where=str(published),
            remedy="a published release never changes; publish a new snapshot instead",
        )
    _require_unchanged(published, manifest)


def _comparable(manifest: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key not in NOT_COMPARED}


def _keep_private(source: Path, target: Path) -> None:
    """Copy the owner's files; the mapping from users to pseudonyms must be stored before anything is public."""
    for name in OPTIONAL_OWNER_FILES:
        (target / name).unlink(missing_ok=True)  # of an earlier attempt
    made = [name for name in OPTIONAL_OWNER_FILES if (source / name).exists()]
    for name in (*OWNER_FILES, *made):
        remove(target / name)
        temporary = target / f".{name}"
        remove(temporary)
        try:
            if (source / name).is_dir():
                shutil.copytree(source / name, temporary)
            else:
                shutil.copy2(source / name, temporary)
            temporary.replace(target / name)
        except BaseException:
            temporary.unlink(missing_ok=True) if temporary.is_file() else remove(temporary)
            raise
    restrict(target / "utility")
    for name in (*OWNER_FILES[1:], *made):
        (target / name).chmod(0o600)
    sync_directory(target)


def _copy(candidate: Path, arriving: Path, manifest: dict[str, Any]) -> None:
    """Copy the candidate beside its final place, manifest last; the later rename makes it visible as a whole."""
    for directory in (arriving.parent.parent, arriving.parent):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
    remove(arriving)
    arriving.mkdir()
    arriving.chmod(0o700)  # the owner's until the mapping is stored, too
    for name in manifest["files"]:
        shutil.copyfile(candidate / name, arriving / name)
        _flush(arriving / name)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
    write_json(arriving / "manifest.json", {**manifest, "created_at": now, "code_version": code_version()})
    for file in arriving.iterdir():
        file.chmod(0o644)
    _require_unchanged(arriving, manifest)
    sync_directory(arriving)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
