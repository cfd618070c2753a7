"""Take files to workers that share no directory with us, and bring back what they write.

A block is a function with arguments; some are paths below the store. While a function is pickled, every such path is
replaced by its name, so that it becomes a path of the worker's own copy, and is noted. The files at the noted paths are
stored under their digests; a worker copies those it lacks before its first block of a map, and after each block stores
what the block wrote. So the cluster's messages carry names and digests alone, and a file that was replaced meanwhile
cannot be mistaken for another.

Blocks write new files and never change one that was there: two workers would have two versions of it. This is checked.
Everything is below private/exchange/<session> and is removed with the session, by us or, after a crash, by the next
process that opens the store. A worker needs credentials for these objects alone: no ledger, no secret.
"""

import contextlib
import contextvars
import io
import json
import os
import pickle
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import cloudpickle

from tasks.errors import MurmurError
from tasks.storage.bucket import Bucket
from tasks.storage.cache import make_cache
from tasks.storage.content import Signature, digest, files_in, signature
from tasks.storage.locks import Locks

EXCHANGES = "private/exchange"
SESSION_BYTES = 16

_root: contextvars.ContextVar[Path] = contextvars.ContextVar("root of the store, where paths are unpickled")


@dataclass(frozen=True)
class Answer:
    """Hold what a block returned, and which files it wrote (digest by name) and removed."""

    value: bytes
    written: dict[str, str]
    removed: list[str]


@dataclass(frozen=True)
class RemoteFunction:
    """Call a function on a worker's own copy of the files."""

    address: str
    session: str
    files: str  # the digest of the list of all files of this map
    function: bytes

    def __call__(self, block: bytes) -> Answer:
        """Copy what is missing, call the function, store what it wrote."""
        return _workplace(self.address, self.session).run(self, block)


class Exchange:
    """Hold our side: what was stored for the workers so far."""

    def __init__(self, bucket: Bucket, root: Path, locks: Locks) -> None:
        self._bucket, self._root, self._locks = bucket, root, locks
        self._session = ""
        self._stored: set[str] = set()
        self._open = contextlib.ExitStack()

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Hold the lock that shows others that these files are in use; remove them afterwards."""
        self._session, self._stored = secrets.token_hex(SESSION_BYTES), set()
        name = f"{EXCHANGES}/{self._session}"
        try:
            with self._locks.lock(name, 0):
                try:
                    yield
                finally:
                    self._bucket.remove(self._bucket.entries(name))
        finally:
            self._session = ""

    def leave(self) -> Callable[[], None]:
        """Return a function that removes this session's files from a worker."""
        return RemoteLeave(self._bucket.address, self._session)

    def pack(self, function: Callable[..., Any], blocks: Iterable[Any]) -> tuple[RemoteFunction, list[bytes]]:
        """Return what workers can call, and the blocks for it; store the files they name."""
        named: set[str] = set()
        packed = [_dumps(block, self._root, named) for block in blocks]
        pickled = _dumps(function, self._root, named)
        files: dict[str, str] = {}
        directories: list[str] = []
        for name in sorted(named):
            place = self._root / name
            directories += [name] if place.is_dir() else []
            for path, below, _ in os.walk(place):
                directories += [str((Path(path) / one).relative_to(self._root)) for one in below]
            for file in files_in(place):
                if (own := str(file.relative_to(self._root))) not in files:
                    files[own] = self._store(file)
        listed = {"named": sorted(named), "directories": directories, "files": files}
        with tempfile.NamedTemporaryFile(dir=self._root) as index:
            index.write(json.dumps(listed).encode())
            index.flush()
            content = self._store(Path(index.name))
        return RemoteFunction(self._bucket.address, self._session, content, pickled), packed

    def unpack(self, answer: Answer) -> Any:
        """Return what a block returned, after its files were copied here."""
        for name in answer.removed:
            (self._root / name).unlink(missing_ok=True)
        for name, content in answer.written.items():
            file = self._root / name
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._bucket.get(_object(self._session, content), file, wanted=content)
            self._stored.add(content)
        return _loads(answer.value, self._root)

    def _store(self, file: Path) -> str:
        # Read each time: a change through a map need not change the file's time.
        content = digest(file)
        if content not in self._stored:
            self._bucket.put(_object(self._session, content), file, known_digest=content)
            self._stored.add(content)
        return content


@dataclass(frozen=True)
class RemoteLeave:
    """Remove a session's files from a worker."""

    address: str
    session: str

    def __call__(self) -> None:
        """Remove them, where there are any."""
        place = _workplaces.pop((self.address, self.session), None)
        if place is not None:
            with place.alone:
                shutil.rmtree(place.root, ignore_errors=True)


@dataclass
class Workplace:
    """Hold a worker's copy of one session's files."""

    bucket: Bucket
    session: str
    root: Path
    here: dict[str, tuple[str, Signature | None]] = field(default_factory=dict)  # digest and state of a file
    files: str = ""  # the list that our copy agrees with
    alone: threading.Lock = field(default_factory=threading.Lock)

    def run(self, remote: RemoteFunction, block: bytes) -> Answer:
        """Run one block; one at a time, because the files it wrote are found by comparing before and after."""
        with self.alone:
            listed = self._prepare(remote.files)
            function, argument = _loads(remote.function, self.root), _loads(block, self.root)
            places = [self.root / one for one in listed["named"]]
            watched = {place if place.is_dir() else place.parent for place in places}
            before = self._signatures(watched)
            try:
                value = function(argument)
            except MurmurError as problem:
                problem.where = problem.where.replace(str(self.root), self.bucket.address)
                raise
            after = self._signatures(watched)
            written = {}
            for name in sorted(name for name, state in after.items() if before.get(name) != state):
                content = digest(self.root / name)
                if listed["files"].get(name, content) != content:
                    raise AssertionError(f"a block changed {Path(name).name}, which other blocks read")
                self.bucket.put(_object(self.session, content), self.root / name, known_digest=content)
                self.here[name] = content, after[name]
                written[name] = content
            return Answer(_dumps(value, self.root, set()), written, sorted(set(before) - set(after)))

    def _prepare(self, files: str) -> dict[str, Any]:
        """Make our copy agree with a list of files; blocks of the same map find what earlier ones wrote besides."""
        index = self.root / f".{files}.json"
        if files != self.files:
            self.bucket.get(_object(self.session, files), index, wanted=files)
        listed = json.loads(index.read_text())
        if files == self.files:
            return dict(listed)
        for name in listed["named"]:
            for file in files_in(self.root / name):
                if str(file.relative_to(self.root)) not in listed["files"]:
                    file.unlink()
            (self.root / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in listed["directories"]:
            (self.root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in listed["files"].items():
            file = self.root / name
            if self.here.get(name) != (content, signature(file)):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.bucket.get(_object(self.session, content), file, wanted=content)
                self.here[name] = content, signature(file)
        self.files = files
        return dict(listed)

    def _signatures(self, places: Iterable[Path]) -> dict[str, Signature | None]:
        return {
            str(file.relative_to(self.root)): signature(file) for place in places for file in files_in(place)
        }


_workplaces: dict[tuple[str, str], Workplace] = {}
_making = threading.Lock()


def _workplace(address: str, session: str) -> Workplace:
    """Return this worker's copy for a session; copies of sessions that are over are removed first."""
    with _making:
        if (address, session) not in _workplaces:
            bucket = Bucket(address)
            for other in [one for one in _workplaces if not bucket.entries(f"{EXCHANGES}/{one[1]}")]:
                RemoteLeave(*other)()
            _workplaces[address, session] = Workplace(bucket, session, make_cache())
        return _workplaces[address, session]


def _object(session: str, content: str) -> str:
    return f"{EXCHANGES}/{session}/{content}"


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, root: Path, named: set[str]) -> None:
        super().__init__(file)
        self._root, self._named = root, named

    def reducer_override(self, obj: Any) -> Any:
        """Replace a path below the store by its name."""
        if isinstance(obj, PurePath) and obj.is_relative_to(self._root):
            name = str(obj.relative_to(self._root))
            self._named.add(name)
            return _path_here, (name,)
        return super().reducer_override(obj)


def _path_here(name: str) -> Path:
    return _root.get() / name


def _dumps(value: Any, root: Path, named: set[str]) -> bytes:
    file = io.BytesIO()
    _Pickler(file, root, named).dump(value)
    return file.getvalue()


def _loads(data: bytes, root: Path) -> Any:
    token = _root.set(root)
    try:
        return pickle.loads(data)  # noqa: S301 - what the two ends of one TLS connection send each other
    finally:
        _root.reset(token)
