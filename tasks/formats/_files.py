"""Find and open the files of a source: plain files, .gz, .zip, directories, any fsspec path."""

import codecs
import contextlib
import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import Piece
from tasks.formats._limits import (
    BoundedStream,
    file_budgets,
    is_gzip,
    open_archive,
    require_bounded_members,
)

MOST_BYTES = Source.model_fields["max_decompressed_bytes"].default  # of a file for which nothing else is said

# Encodings in which a line break is one byte that is part of no other character: files can be cut anywhere.
_CUTTABLE = {"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252"}


class NoMatchingFile(UsageError):
    """Report that a directory or an archive can be read but holds no file of the requested name."""


@dataclass(frozen=True)
class SourceFiles:
    """Hold the files a source consists of, in reading order; `container` is the archive they are members of.

    `budgets` are the bytes that each file may have when decompressed.
    """

    files: tuple[str, ...]
    sizes: tuple[int | None, ...]
    container: str = ""
    budgets: tuple[int, ...] = ()

    def piece(self, *files: str, start: int = 0, stop: int | None = None) -> Piece:
        """Return a piece of these files; of all if none is named."""
        chosen = files or self.files
        return Piece(chosen, self.container, start, stop, tuple(self._budget_of[file] for file in chosen))

    @cached_property
    def _budget_of(self) -> dict[str, int]:
        return dict(zip(self.files, self.budgets, strict=True))

    @property
    def cuttable(self) -> bool:
        """Return whether a reader can begin anywhere in the files."""
        return not self.container and not any(map(is_gzip, self.files))

    @property
    def local(self) -> bool:
        """Return whether reading the files twice costs no network traffic."""
        return isinstance(_filesystem(self.container or self.files[0])[0], LocalFileSystem)


def expand_path(source: Source, snapshot: date) -> str:
    """Return the source's path for this snapshot."""
    return (source.path or "").replace("{snapshot}", snapshot.isoformat())


def find(source: Source, snapshot: date, names: Sequence[str] = (), *, several: bool = False) -> SourceFiles:
    """Find the source's file; in a directory or an archive, those that match `names` (or the only one)."""
    path = expand_path(source, snapshot)
    with readable_errors(path):
        filesystem, place = _filesystem(path)
        if isinstance(filesystem, LocalFileSystem):
            path = place  # absolute: a worker may have another working directory
        filesystem.invalidate_cache()  # a worker outlives many snapshots
        pattern = several and "*" in place
        if pattern or filesystem.isdir(place):
            inside = filesystem.glob(place, detail=True) if pattern else filesystem.find(place, detail=True)
            above = place.rpartition("/")[0] if pattern else place
            listing = {
                filesystem.unstrip_protocol(name): info.get("size")
                for name, info in inside.items()
                if info.get("type") != "directory" and not _unfinished(name.removeprefix(above))
            }
            found = _choose(listing, names, path, several)
        elif not path.lower().endswith(".zip"):
            _require_ordinary(filesystem, place)
            found = SourceFiles((path,), (filesystem.size(place),))
        else:
            return _find_members(filesystem, place, path, source, names, several)
    return replace(found, budgets=file_budgets(found.files, found.sizes, source))


def _find_members(
    filesystem: Any, place: str, path: str, source: Source, names: Sequence[str], several: bool
) -> SourceFiles:
    """Find files in an archive, and refuse those that expand too far."""
    _require_ordinary(filesystem, place)
    with filesystem.open(place, "rb") as file, open_archive(file, path) as archive:
        members = {
            member.filename: member
            for member in archive.infolist()
            if not member.is_dir() and not _unfinished(member.filename)
        }
    listing = {name: member.file_size for name, member in members.items()}
    found = _choose(listing, names, path, several, container=path)
    plain = require_bounded_members([members[f] for f in found.files], filesystem.size(place), source, path)
    return replace(found, budgets=file_budgets(found.files, found.sizes, source, taken=plain))


def _unfinished(name: str) -> bool:
    """Return whether a file is hidden, or lies where writers keep incomplete output (`_temporary`)."""
    return any(part.startswith((".", "_")) for part in PurePosixPath(name).parts)


def _choose(
    listing: Mapping[str, int | None], names: Sequence[str], path: str, several: bool, container: str = ""
) -> SourceFiles:
    wanted = [*names, *(f"{name}.gz" for name in names)] or (["*"] if container else [])
    chosen = sorted(f for f in listing if any(fnmatch(PurePosixPath(f).name, name) for name in wanted))
    if not chosen:
        nothing = "the archive holds no file, or only hidden ones" if container else "this is not a file"
        raise NoMatchingFile(
            f"there is no file called {' or '.join(names)} in it" if names else nothing,
            where=path,
            remedy="name the file itself in source.path, or check source.format",
        )
    if len(chosen) > 1 and not several:
        raise UsageError(
            f"{len(chosen)} files in it match",
            where=path,
            remedy="name one of them in source.path",
        )
    return SourceFiles(tuple(chosen), tuple(listing[f] for f in chosen), container)


def cut(found: SourceFiles, block_bytes: int, *, encoding: str = "utf-8") -> list[Piece]:
    """Cut files into pieces of about `block_bytes`: large files by byte range where possible, small ones gathered."""
    pieces: list[Piece] = []
    gathered: list[str] = []
    gathered_bytes = 0
    whole = not found.cuttable or codecs.lookup(encoding).name not in _CUTTABLE
    for file, size in zip(found.files, found.sizes, strict=True):
        if whole or size is None or size <= block_bytes:
            gathered.append(file)
            gathered_bytes += size or block_bytes
            if gathered_bytes < block_bytes:
                continue
        if gathered:
            pieces.append(found.piece(*gathered))
            gathered, gathered_bytes = [], 0
        if not whole and size is not None and size > block_bytes:
            pieces += [
                found.piece(file, start=start, stop=min(start + block_bytes, size))
                for start in range(0, size, block_bytes)
            ]
    if gathered:
        pieces.append(found.piece(*gathered))
    return pieces


def states(pieces: list[Piece]) -> dict[str, str]:
    """Return a token per file that changes when the file does: from size, time, entity tag, whichever is available."""
    found = {}
    for path in _paths(pieces):
        filesystem, place = _filesystem(path)
        with readable_errors(path):
            found[path] = filesystem.ukey(place)
    return found


def content_digest(pieces: list[Piece]) -> str | None:
    """Return a digest of the names and bytes of all files; None where one is not local: it would be fetched again."""
    found = {path: _filesystem(path) for path in sorted(_paths(pieces))}
    if not all(isinstance(filesystem, LocalFileSystem) for filesystem, _ in found.values()):
        return None
    whole = hashlib.sha256()
    for path, (_, place) in found.items():
        with readable_errors(path), Path(place).open("rb") as file:
            own = hashlib.file_digest(file, "sha256")
        whole.update(f"{Path(place).name}\0".encode("utf-8", "surrogatepass") + own.digest())
    return whole.hexdigest()


def _paths(pieces: list[Piece]) -> set[str]:
    """Return the files on the file system: archives, not their members."""
    return {p for piece in pieces for p in ((piece.container,) if piece.container else piece.files)}


def open_files(piece: Piece) -> Iterator[tuple[str, BinaryIO]]:
    """Open each file of a piece; yield its name for messages, and its decompressed bytes.

    Translates the errors of opening; a caller that reads from the stream wraps that in `readable_errors` as well.
    """
    budgets = piece.budgets or (MOST_BYTES,) * len(piece.files)
    with contextlib.ExitStack() as stack, readable_errors(piece.container or piece.files[0]):
        if piece.container:
            filesystem, place = _filesystem(piece.container)
            file = stack.enter_context(filesystem.open(place, "rb"))
            archive = stack.enter_context(open_archive(file, piece.container))
            for member, budget in zip(piece.files, budgets, strict=True):
                called = f"{_called(piece.container)}/{member}"
                with _open_member(archive, member) as inner:
                    yield called, _decompressed(inner, called, budget)
            return
        for path, budget in zip(piece.files, budgets, strict=True):
            filesystem, place = _filesystem(path)
            _require_ordinary(filesystem, place)
            with readable_errors(path), filesystem.open(place, "rb") as file:
                yield _called(path), _decompressed(file, path, budget)


def _decompressed(file: Any, name: str, budget: int) -> BinaryIO:
    if is_gzip(name):
        decompressing = cast(BinaryIO, gzip.GzipFile(fileobj=file))
        return io.BufferedReader(BoundedStream(decompressing, budget, name))
    return cast(BinaryIO, file if hasattr(file, "readline") else io.BufferedReader(file))


def _open_member(archive: zipfile.ZipFile, member: str) -> IO[bytes]:
    """Open a member; its own header may claim what the list of members did not (encryption, patches)."""
    try:
        return archive.open(member)
    except (NotImplementedError, RuntimeError, UnicodeDecodeError):
        raise zipfile.BadZipFile from None


def _require_ordinary(filesystem: Any, place: str) -> None:
    """Refuse a pipe or a device: a reader would wait for ever, or never come to the end."""
    if isinstance(filesystem, LocalFileSystem) and Path(place).exists() and not Path(place).is_file():
        raise UsageError(
            "this is no ordinary file",
            where=place,
            remedy="copy its content to a file; name that in source.path",
        )


def _called(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _filesystem(path: str) -> tuple[Any, str]:
    try:
        return fsspec.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise UsageError(
            f"this kind of path cannot be opened: {error}", where=path, remedy="check source.path"
        ) from None


@contextlib.contextmanager
def readable_errors(path: str) -> Iterator[None]:
    """Translate errors of reading a file into messages for the owner; only reading happens inside."""
    try:
        yield
    except FileNotFoundError:
        relative = "://" not in path and not Path(path).is_absolute()
        begins = f" (a relative path begins at the working directory, {Path.cwd()})" if relative else ""
        raise UsageError("there is no such file", where=path, remedy=f"check source.path{begins}") from None
    except PermissionError:
        raise UsageError("the file may not be read", where=path, remedy="check its permissions") from None
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        raise UsageError(
            "the compressed file is damaged or cut short", where=path, remedy="fetch or copy it again"
        ) from None
    except (pa.ArrowException, UnicodeDecodeError):  # Arrow's own message may quote the row; names of columns
        raise UsageError(
            "the file cannot be read in this format", where=path, remedy="check source.format and the file"
        ) from None
    except OSError as error:
        raise UsageError(
            f"the file cannot be read: {error.strerror or type(error).__name__}",
            where=path,
            remedy="check the file",
        ) from None
