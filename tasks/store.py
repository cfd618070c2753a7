"""Hold the places of releases and secrets, and write files whole or not at all.

`published/` is public; `private/` is for the data owner alone (directories 0700, files 0600). Every file is written
beside its final place, flushed and renamed, so a reader sees all of it or nothing.

Where the store is in an object store (s3://bucket/prefix), the paths are those of this process's private copy
(tasks/storage/objects.py). What survives a power failure in a directory is then in the object store: `write_bytes`,
`sync_directory` and `remove` do there, too, what they do here.
"""

import contextlib
import datetime
import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from tasks.errors import MurmurError, Refused, UsageError, is_full, no_space_left
from tasks.storage.content import digest as digest
from tasks.storage.content import open_file as open_file
from tasks.storage.local import LocalStorage
from tasks.storage.objects import ObjectStorage, is_of_result
from tasks.storage.objects import copy_objects as copy_objects

PRIVATE_UMASK = 0o077
LARGEST_JSON = 2**28
LARGEST_PUBLISHED_JSON = 2**24  # a manifest has 50 kB; empty lists take twenty times their text in memory
MOST_DIGITS = 300  # of a whole number: any such can still be a float
STEP_TIMES = ".times.json"  # of a step; hidden, because the files of a repeated step have the same bytes


Storage = LocalStorage | ObjectStorage

_copies: dict[
    tuple[int, str], ObjectStorage
] = {}  # of this process, by its number: a forked child makes its own


class Store:
    """Hold the paths below one root (`MURMUR_STORE`, default ./store): a directory, or s3://bucket/prefix."""

    def __init__(self, root: str | Path | None = None) -> None:
        named = str(root or os.environ.get("MURMUR_STORE") or "store")
        self.storage: Storage
        if "://" in named:
            self.storage = _copy_of(named)
            self.storage.refresh()
        else:
            self.storage = LocalStorage(Path(named).absolute())
        self.root = self.storage.root

    @property
    def is_remote(self) -> bool:
        """Return whether the store is in an object store, which no other process reads through our paths."""
        return isinstance(self.storage, ObjectStorage)

    @property
    def address(self) -> str:
        """Return what names this store for other processes: its directory, or its address in the object store."""
        return self.storage.address if isinstance(self.storage, ObjectStorage) else str(self.root)

    def published(self, name: str, snapshot: datetime.date) -> Path:
        """Return the public directory of one release; it exists only once the release is published."""
        return self.root / "published" / name / snapshot.isoformat()

    def private(self, name: str, snapshot: datetime.date) -> Path:
        """Return the owner's directory of one release, created with mode 0700."""
        path = self.root / "private" / name / snapshot.isoformat()
        make_private(path, below=self.root)
        return path

    def lock_file(self) -> Path:
        """Return the lock file that serialises publication by any process."""
        make_private(self.root / "private", below=self.root)
        return self.root / "private" / "publish.lock"


def _copy_of(address: str) -> ObjectStorage:
    own = os.getpid(), address.rstrip("/")
    if own not in _copies:
        _copies[own] = ObjectStorage(address)
    return _copies[own]


def storage_of(path: Path) -> ObjectStorage | None:
    """Return the object store in whose private copy a path is; None for every other path."""
    return next(
        (copy for (pid, _), copy in _copies.items() if pid == os.getpid() and path.is_relative_to(copy.root)),
        None,
    )


def _save(path: Path) -> None:
    """Store what was made to survive; results of steps are stored when they are closed (tasks/pipeline.py)."""
    if (
        _copies
        and (storage := storage_of(path)) is not None
        and not is_of_result(f"{path.relative_to(storage.root)}/")
    ):
        storage.save(path)


def addressed(value: Any) -> Any:
    """Return a JSON value with the store's address in place of paths that only this process can open."""
    for (pid, _), copy in _copies.items() if _copies else ():
        if pid == os.getpid():
            value = _replaced(value, copy)
    return value


def _replaced(value: Any, copy: ObjectStorage) -> Any:
    if isinstance(value, str):
        return copy.shown(value)
    if isinstance(value, dict):
        return {key: _replaced(part, copy) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(part, copy) for part in value)
    return value


@contextlib.contextmanager
def errors_addressed() -> Iterator[None]:
    """Name the store's address in errors in place of paths that only this process can open."""
    try:
        yield
    except MurmurError as problem:
        problem.what, problem.where, problem.remedy = map(
            addressed, (problem.what, problem.where, problem.remedy)
        )
        raise


@contextlib.contextmanager
def exclusive(private: Path, store: Store) -> Iterator[None]:
    """Refuse a second run of one snapshot: with other settings it would overwrite the first one's intermediates."""
    try:
        with store.storage.lock(private / ".run.lock", 0):
            yield
    except TimeoutError:
        raise UsageError(
            "another run of this release and snapshot is under way",
            where=str(private),
            remedy="wait for it to finish",
        ) from None


@contextlib.contextmanager
def kept_for_owner(out: Path, private: Path, storage: Storage) -> Iterator[None]:
    """Store what a step has left for the owner in the private directory; of a refused candidate all of it."""
    try:
        yield
    except Refused:
        storage.save(out)
        raise
    finally:
        storage.save(private)


def make_private(path: Path, *, below: Path) -> None:
    """Create a directory and its parents under `below`, all with mode 0700."""
    try:
        _make_private(path, below)
    except OSError as problem:
        if is_full(problem):
            raise no_space_left(str(below)) from None
        why, remedy = _UNUSABLE.get(
            problem.errno or 0, (problem.strerror or "unknown error", "check the path")
        )
        raise UsageError(
            f"the store cannot be written: {why}",
            where=str(problem.filename or below),
            remedy=f"{remedy}, or name another store (--store, MURMUR_STORE)",
        ) from None


_UNUSABLE = {
    errno.ENOTDIR: ("it is a file, not a directory", "name a directory"),
    errno.EEXIST: ("it is a file, not a directory", "name a directory"),
    errno.EROFS: ("the file system is read-only", "mount it so that it can be written"),
    errno.EACCES: ("this account may not write there", "give it the right to"),
    errno.EPERM: ("it belongs to another account", "run as that account"),
}


def _make_private(path: Path, below: Path) -> None:
    if not below.exists():
        below.mkdir(parents=True, exist_ok=True)
        below.chmod(0o755)  # published/ below it is public, private/ is for the owner
    current = below
    for part in path.relative_to(below).parts:
        current = current / part
        current.mkdir(mode=0o700, exist_ok=True)
        current.chmod(0o700)  # also where it existed with another mode


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Make files created inside readable by the owner alone."""
    before = os.umask(PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def restrict(directory: Path) -> None:
    """Set modes 0700 of directories and 0600 of files below `directory`, whatever process wrote them."""
    for root, _, files in os.walk(directory):
        Path(root).chmod(0o700)
        for file in files:
            (Path(root) / file).chmod(0o600)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()


def dumps(value: Any, indent: int | None = None) -> str:
    """Return canonical JSON: sorted keys; a NaN is refused, because it is a fault."""
    return json.dumps(value, sort_keys=True, allow_nan=False, indent=indent, ensure_ascii=False)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        _sync(path.parent)
        _save(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write JSON whole or not at all, readable and with sorted keys."""
    write_bytes(path, (dumps(value, indent=1) + "\n").encode())


def read_json(path: Path, most: int = LARGEST_JSON) -> Any:
    """Read a JSON file; anything that readers of JSON understand differently is a ValueError, and so is a file of more
    than `most` bytes: a key that is there twice, NaN and infinities, nesting that is too deep, numbers out of range."""
    with open_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError("the file is too large")
    return parse_json(data)


def read_published_json(path: Path) -> Any:
    """Read a JSON file that may come from a stranger: a small file must not become large in memory."""
    return read_json(path, LARGEST_PUBLISHED_JSON)


def parse_json(data: bytes) -> Any:
    """Return a JSON value; raise a ValueError for what `read_json` refuses."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_whole,
        )
        if b"\\ud" in data.lower():  # half of a surrogate pair is a text that cannot be written
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError("it holds a number that is none")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError("a whole number is out of range")
    return int(text)


def sync_directory(path: Path) -> None:
    """Make renames in a directory survive a power failure."""
    _sync(path)
    _save(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_path(path: Path, *, below: Path) -> None:
    """Make a directory survive a power failure, with every directory above it up to `below`: an entry is durable once
    the directory that holds it was synced."""
    for place in (path, *path.parents):
        sync_directory(place)
        if place == below:
            return


def sync_directories(path: Path) -> None:
    """Make what was removed anywhere below a directory stay removed after a power failure."""
    for root, _, _ in os.walk(path):
        sync_directory(Path(root))


def files_below(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a directory by its relative name, except hidden files."""
    found = (f for f in sorted(directory.rglob("*")) if f.is_file() and not f.name.startswith("."))
    return {str(file.relative_to(directory)): digest(file) for file in found}


def link(source: Path, target: Path) -> None:
    """Give a finished file a second name, without copying where the file system allows it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def remove(directory: Path) -> None:
    """Remove a directory tree if it exists."""
    if _copies and (storage := storage_of(directory)) is not None:
        storage.discard(directory)
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def removed_if_full(directory: Path) -> Iterator[None]:
    """Remove what was written to a directory before the disk was full, so that it takes no space."""
    try:
        yield
    except Exception as problem:
        if is_full(problem):
            remove(directory)
        raise


def code_digest(*packages: Path) -> str:
    """Return a digest of every file of these packages, templates and settings included, but not of compiled files."""
    sources = {
        f"{package.name}/{file.relative_to(package)}": digest(file)
        for package in packages
        for file in sorted(package.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    return digest_of(sources)[:12]
