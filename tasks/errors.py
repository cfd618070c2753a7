"""The errors a person sees: what is wrong, where, and what to do about it.

No message may carry a source user id: messages travel into logs and the Airflow UI.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class MurmurError(Exception):
    """An error with a place and a remedy; `exit_code` is what `murmur` returns for it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what, where, remedy)  # all three, so that it survives pickling between processes

    def __reduce__(self) -> tuple:
        return (_rebuild, (type(self), self.what, self.where, self.remedy))

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.remedy:
            parts.append(f"  to do: {self.remedy}")
        return "\n".join(parts)


def _rebuild(kind: type[MurmurError], what: str, where: str, remedy: str) -> MurmurError:
    return kind(what, where=where, remedy=remedy)


class UsageError(MurmurError):
    """The configuration, the command or the input cannot be used as it is."""

    exit_code = 2


class DiskFull(MurmurError):
    """Something could not be written; that says nothing about the release."""


def is_full(problem: BaseException) -> bool:
    """Whether a write failed for want of space; the short writes of NumPy and copied trees only say so."""
    if isinstance(problem, OSError) and problem.errno is None:
        return any(sign in str(problem) for sign in ("requested and", *map(os.strerror, FULL)))
    return isinstance(problem, DiskFull) or (isinstance(problem, OSError) and problem.errno in FULL)


@contextlib.contextmanager
def room_in(place: Path, *, scratch: bool = False) -> Iterator[None]:
    """Say it clearly when the disk is full. Where nothing but our own working files is touched inside (`scratch`),
    any failure of the disk is ours and not that of the files we judge."""
    try:
        yield
    except OSError as problem:
        full = is_full(problem)
        if not full and not scratch:
            raise
        raise DiskFull(
            "no space left" if full else f"the working files cannot be written ({problem.strerror})",
            where=str(place),
            remedy="free some space, then run it again" if full else "look after the disk, then run it again",
        ) from None


class Refused(MurmurError):
    """The release cannot be proved safe (or would be worthless), so it is not published."""

    exit_code = 3
