"""Define the errors that users see: what is wrong, where, and what to do about it.

No message may contain a source user id: messages get into logs and the Airflow UI.
"""

import contextlib
import errno
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LONGEST = 3000  # characters of a part of a message: what is quoted in it may be a stranger's


def printable(text: str, longest: int = LONGEST, *, breaks: bool = False) -> str:
    """Return text with everything escaped that a terminal or a log would obey: control characters, line breaks (kept
    with `breaks`), marks that reverse the direction of writing, halves of surrogate pairs; cut where it is too long.

    Names of files, columns and keys, and reasons of withdrawals, come from strangers.
    """
    more = len(text) - longest
    if more > 0:
        text = f"{text[:longest]}… ({more:,} more characters)"
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or (breaks and sign == "\n") else sign.encode("unicode_escape").decode()
        for sign in text
    )


class MurmurError(Exception):
    """Represent an error with a place and a remedy; `exit_code` is what `murmur` returns for it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = printable(what, breaks=True), printable(where), printable(remedy)
        # All three, so that it survives pickling between processes.
        super().__init__(self.what, self.where, self.remedy)

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
    """Report a configuration, command or input that cannot be used as it is."""

    exit_code = 2


class DiskFull(MurmurError):
    """Report that files could not be written; this is no verdict on the release."""


def place_of(problem: BaseException) -> str:
    """Return the type of an exception and the file and line that raised it, never its message: that of a foreign
    exception may quote a source user id."""
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} in {Path(frame.filename).name}, line {frame.lineno}"


def is_full(problem: BaseException) -> bool:
    """Return whether a write failed because the disk is full; NumPy and copytree say so in their message only."""
    if isinstance(problem, OSError) and problem.errno is None:
        return any(sign in str(problem) for sign in ("requested and", *map(os.strerror, FULL)))
    return isinstance(problem, DiskFull) or (isinstance(problem, OSError) and problem.errno in FULL)


def no_space_left(where: str = "") -> DiskFull:
    """Return the error of a full disk."""
    return DiskFull("no space left", where=where, remedy="free some space, then run it again")


@contextlib.contextmanager
def room_in(place: Path, *, scratch: bool = False) -> Iterator[None]:
    """Raise DiskFull where the disk is full.

    With `scratch`, only working files are touched inside: then any failure of the disk is an error of this run, and no
    fault of the files that are judged.
    """
    try:
        yield
    except OSError as problem:
        if is_full(problem):
            raise no_space_left(str(place)) from None
        if not scratch:
            raise
        raise DiskFull(
            f"the working files cannot be written ({problem.strerror})",
            where=str(place),
            remedy="check the disk, then run it again",
        ) from None


class Refused(MurmurError):
    """Report that a release failed a check or a promise cannot be kept, so it is not published."""

    exit_code = 3
