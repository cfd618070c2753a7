"""Keep a store in a directory of this machine: renames make files appear whole, a lock file keeps others out."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from tasks.storage.content import files_in


class LocalStorage:
    """Hold a store that is a directory: what is written there is stored."""

    exchange = None  # workers read the same directory
    address = ""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def lock(self, path: Path, seconds: float | None = None) -> Iterator[None]:
        """Keep all other processes out that lock the same path; raise TimeoutError after this time."""
        lock = FileLock(path, timeout=-1 if seconds is None else seconds, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            raise TimeoutError from None
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def share(self, path: Path) -> Iterator[None]:
        """Keep out who locks the same path alone, together with others who share it; wait until that is possible."""
        with _shared(path):
            yield

    def refresh(self) -> None:
        """Do nothing: what others wrote is in the same directory."""

    def save(self, place: Path) -> None:
        """Do nothing: what was written is stored."""

    def fetch(self, result: Path, *, whole: bool = True) -> None:
        """Do nothing: the result of a step is there."""

    def fetch_shared(self, file: Path) -> None:
        """Do nothing: the file is there."""

    def names(self, result: Path) -> set[str]:
        """Return the names of all files of a step's result."""
        return {str(file.relative_to(result)) for file in files_in(result)}

    def has(self, path: Path) -> bool:
        """Return whether a file is stored."""
        return path.exists()

    def reveal(self, arriving: Path, published: Path) -> None:
        """Let a complete directory appear under its public name, as a whole."""
        shutil.rmtree(published, ignore_errors=True)  # what a crash may have left without a manifest
        arriving.rename(published)

    def discard(self, directory: Path) -> None:
        """Do nothing: who removes a directory has removed it."""


@contextlib.contextmanager
def _shared(path: Path) -> Iterator[None]:
    """Hold the lock that FileLock takes alone, as one of several."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # also where a child has inherited the open file
    finally:
        os.close(handle)
