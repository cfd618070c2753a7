"""Bound what compressed files expand to: a small file must fill neither the memory nor the disk.

All reading is in blocks, so the memory is bounded anyway, but what is read is written again by `ingest`. An archive
states its members' sizes, and its reader returns no more than that; a .gz file states nothing that can be relied on.
It therefore has a budget, which the stream keeps. Workers read files independently of each other: the budgets of all
files together are `source.max_decompressed_bytes`, so that no worker has to know what the others have read.

How well data compress is a second sign: rating files shrink to a third … a tenth, and `source.max_compression_ratio` is
ten times that, where deflate can reach 1,032 and zstd much more.
"""

import io
import struct
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO

from tasks.config import Source
from tasks.errors import UsageError

MOST_MEMBERS = 100_000  # the Netflix Prize has 17,770 files
# The list of members is read at once; with usual names this is room for more than MOST_MEMBERS.
DIRECTORY_BYTES = 16 * 2**20
END_BYTES = 2**17  # the end of an archive: a record and a comment of at most 65,535 bytes
HARMLESS_BYTES = 64 * 2**20  # however well so much is compressed
CHUNK_BYTES = 2**20
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_gzip(name: str) -> bool:
    """Return whether a file is decompressed because of its name."""
    return name.lower().endswith(".gz")


def file_budgets(
    names: Sequence[str], sizes: Sequence[int | None], source: Source, *, taken: int = 0
) -> tuple[int, ...]:
    """Return how many bytes each file may have when decompressed; `taken` bytes are promised to others already.

    Half of the total is shared by size, half equally: a large file gets much, and a tiny one enough.
    """
    compressed = [is_gzip(name) for name in names]
    known = [size or 0 for size, counts in zip(sizes, compressed, strict=True) if counts]
    total, room = sum(known), max(0, source.max_decompressed_bytes - taken)
    budgets = []
    for size, counts in zip(sizes, compressed, strict=True):
        if not counts:
            budgets.append(size or source.max_decompressed_bytes)  # not decompressed: nothing to bound
            continue
        share = (size or 0) / total if total else 1 / len(known)
        budget = int(room * (share + 1 / len(known)) / 2)
        budgets.append(budget if size is None else min(budget, _by_ratio(size, source)))
    return tuple(budgets)


def _by_ratio(size: int, source: Source) -> int:
    return max(HARMLESS_BYTES, int(size * source.max_compression_ratio))


def expands_too_far(where: str, most: int) -> UsageError:
    """Return the error for a file that is larger inside than is read."""
    return UsageError(
        f"decompressed, the file exceeds {most:,} bytes, the most that is read of it",
        where=where,
        remedy="if it should be so large, raise source.max_decompressed_bytes (all files of the source together) or "
        "source.max_compression_ratio; otherwise fetch it again from a place you trust",
    )


def require_bounded(decompressed: int, size: int | None, source: Source, where: str) -> None:
    """Refuse a file that says itself that it expands too far."""
    most = source.max_decompressed_bytes if size is None else _by_ratio(size, source)
    if decompressed > (most := min(most, source.max_decompressed_bytes)):
        raise expands_too_far(where, most)


class BoundedStream(io.RawIOBase):
    """Read a decompressing stream up to a number of bytes; seeking forward counts as reading."""

    def __init__(self, stream: BinaryIO, most: int, where: str) -> None:
        super().__init__()
        self._stream, self._most, self._where = stream, most, where
        self._position = 0

    def readable(self) -> bool:
        """Return true: this is a stream to read from."""
        return True

    def seekable(self) -> bool:
        """Return true: a decompressing stream starts again to go back."""
        return True

    def tell(self) -> int:
        """Return the position in the decompressed bytes."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as the stream goes, a chunk at most."""
        data = self._stream.read(min(len(buffer), CHUNK_BYTES))
        self._position += len(data)
        if self._position > self._most:
            raise expands_too_far(self._where, self._most)
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position, or to the end if that comes first."""
        if whence == io.SEEK_END:
            while self.read(CHUNK_BYTES):
                pass
        target = offset + (0 if whence == io.SEEK_SET else self._position)
        if target < self._position:
            self._position = self._stream.seek(max(0, target))
        while self._position < target and self.read(min(CHUNK_BYTES, target - self._position)):
            pass
        return self._position


def open_archive(file: BinaryIO, where: str) -> zipfile.ZipFile:
    """Open an archive whose list of members is not made to fill the memory."""
    try:
        archive = zipfile.ZipFile(_ShortDirectory(file, where))  # type: ignore[arg-type]  # what ZipFile needs of a file
    except (
        ValueError,
        struct.error,
        NotImplementedError,
        OverflowError,
    ):  # names that are no text, places before 0
        raise zipfile.BadZipFile from None
    if len(archive.infolist()) > MOST_MEMBERS:
        raise _too_many_members(where)
    return archive


def require_bounded_members(
    members: Sequence[zipfile.ZipInfo], archive_bytes: int | None, source: Source, where: str
) -> int:
    """Refuse members that expand too far, or cannot be read in bounded memory; return their bytes, .gz files apart."""
    if any(member.flag_bits & 1 or member.compress_type not in _READABLE for member in members):
        raise UsageError(
            "a file in the archive is encrypted, or compressed in another way than deflate",
            where=where,
            remedy="pack it again as an ordinary .zip without a password",
        )
    # A header may exaggerate how large the packed member is, but not beyond the archive.
    for member in members:
        packed = member.compress_size if archive_bytes is None else min(member.compress_size, archive_bytes)
        require_bounded(member.file_size, packed, source, f"{where}/{member.filename}")
    total = sum(member.file_size for member in members if not is_gzip(member.filename))
    require_bounded(total, None, source, where)
    return total


class _ShortDirectory:
    """Pass on what ZipFile asks of a file, except to read a list of members that is too long."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self._where = file, where
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        """Read; without a size, the end of the archive, which is short."""
        if size > DIRECTORY_BYTES:
            raise _too_many_members(self._where)
        return self._file.read(size if size >= 0 else END_BYTES)


def _too_many_members(where: str) -> UsageError:
    return UsageError(
        f"the archive lists more than {MOST_MEMBERS:,} files, or very long names",
        where=where,
        remedy="unpack it, or pack the source into fewer files",
    )
