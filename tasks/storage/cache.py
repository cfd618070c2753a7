"""Make private directories on this machine that do not outlive the process which made them.

They hold what is private: mode 0700, removed at the end of the process. What a killed process leaves is removed by the
next one on this machine, which sees that nobody holds the directory any more.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from tasks.errors import UsageError

PREFIX = "murmur-store-"


def make_cache() -> Path:
    """Return a new directory below `MURMUR_CACHE` (else the directory for temporary files)."""
    named = os.environ.get("MURMUR_CACHE")
    parent = Path(named or tempfile.gettempdir()).absolute()
    try:
        if named:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(parent)
        place = _make(parent)
    except OSError as problem:
        raise UsageError(
            f"the cache of the store cannot be written: {problem.strerror}",
            where=str(parent),
            remedy="name a directory of this machine that this account may write: MURMUR_CACHE",
        ) from None
    atexit.register(_remove_own, place, os.getpid())
    return place


def _make(parent: Path) -> Path:
    """Make a directory and hold it for as long as this process lives."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()
        with contextlib.suppress(FileNotFoundError):  # another process took it for an abandoned one
            handle = os.open(place, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if place.stat().st_ino == os.fstat(handle).st_ino:
                return place
            os.close(handle)


def _remove_own(place: Path, maker: int) -> None:
    if os.getpid() == maker:  # a forked child must not remove its parent's
        shutil.rmtree(place, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for place in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another account's, or removed meanwhile
            if place.stat().st_uid != os.getuid():
                continue
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(handle)
