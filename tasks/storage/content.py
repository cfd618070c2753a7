"""Identify files by content, and tell without reading them whether they were changed."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

Signature = tuple[int, int, int]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
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
