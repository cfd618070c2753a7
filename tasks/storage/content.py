"""Identify files by content, and detect changes without reading them."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

Signature = tuple[int, int, int]


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """Open an ordinary file for reading; anything else raises an OSError: a pipe would make a reader wait for ever, and
    a device has no end. Releases are copied from strangers, links and pipes with them."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(kind, "this is no ordinary file", str(path))
    with os.fdopen(handle, "rb") as file:
        yield file


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signature(path: Path) -> Signature | None:
    """Return size, time of change and number of a file: equal ones, equal content. None: there is no such file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def files_in(place: Path) -> Iterator[Path]:
    """Yield all regular files below a directory, hidden ones too; of a file, itself."""
    if place.is_file():
        yield place
    for directory, _, names in os.walk(place):
        for name in names:
            path = Path(directory) / name
            if path.is_file() and not path.is_symlink():
                yield path
