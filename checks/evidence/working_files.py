"""Manage the judge's working files: readable by the owner only, mapped, not held, and removed when not needed."""

import errno
import fcntl
import mmap
import os
import tempfile
import time
import weakref
from pathlib import Path

import numpy as np

from tasks.errors import room_in
from tasks.store import remove

PREFIX = ".attack-"
ABANDONED_SECONDS = 86_400
NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)


class WorkingFiles(tempfile.TemporaryDirectory):
    """Represent a directory that is removed with the object, and locked for as long as the process lives."""

    def __init__(self, prefix: str, place: Path | None) -> None:
        super().__init__(prefix=prefix, dir=place)
        handle = os.open(self.name, os.O_RDONLY)
        weakref.finalize(self, os.close, handle)
        _hold(handle)


def working_files(private: Path | None) -> WorkingFiles:
    """Create a directory readable by the owner only, beside the private files where there are any.

    Workers on other machines can read files there. The directory is removed with the object.
    """
    if private is not None:
        _remove_abandoned(private)
    with room_in(private or Path(tempfile.gettempdir()), scratch=True):
        try:
            return WorkingFiles(PREFIX, private)
        except OSError as problem:
            if private is None or problem.errno not in NOT_OURS:
                raise
            # An audit may be allowed to read the private files and not to write.
            return WorkingFiles("murmur-attack-", None)


def _remove_abandoned(private: Path) -> None:
    """Remove what a killed judge left here: older than a day, and locked by no process."""
    for place in private.glob(f"{PREFIX}*"):
        try:
            if time.time() - place.stat().st_mtime < ABANDONED_SECONDS:
                continue
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # it belongs to another user, or was removed meanwhile
            continue
        try:
            if _hold(handle):
                remove(place)
        finally:
            os.close(handle)


def _hold(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (
        OSError
    ):  # another process holds it, or the file system has no locks: then nothing is removed either
        return False
    return True


def create(path: Path, size: int) -> np.ndarray:
    """Create a file of zeros to fill through its map.

    Its disk space is reserved at once: touching a page of a map without space behind it kills the process.
    """
    with room_in(path.parent, scratch=True), path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return np.memmap(path, mode="r+", shape=(size,))


def mapped(path: Path, dtype: type[np.generic]) -> np.ndarray:
    """Map a whole file as an array; all processes that map it share its pages."""
    if not path.stat().st_size:  # nothing can be mapped of an empty file
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def forget(*arrays: np.ndarray | None) -> None:
    """Release the memory of mapped arrays: the data stay in the files and are read again when they are touched."""
    for array in arrays:
        base = array
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        if base is not None:
            base.madvise(mmap.MADV_DONTNEED)
