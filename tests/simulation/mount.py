"""Let Python, shutil, pathlib and pyarrow use the file system in memory for paths below /sim, the real one elsewhere.

Parquet files are parsed once: what a reader returns follows from the bytes alone.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.file_system import ROOT, Directory, File, FileSystem, Node

FIRST_HANDLE = 1_000_000


class Handle(io.BytesIO):
    """Represent an open file; what is written reaches the file system when it is flushed, as with real buffers."""

    def __init__(self, system: FileSystem, node: File, path: str, number: int) -> None:
        super().__init__(node.data)
        self._system, self._node, self._path, self._number = system, node, path, number
        self._is_changed = False
        self.name = path

    def write(self, data: Any) -> int:
        self._is_changed = True
        return super().write(data)

    def flush(self) -> None:
        if self._is_changed:
            self._is_changed = False
            self._system.write(self._node, self.getvalue(), self._path)

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        if not self.closed:
            try:
                self.flush()
            finally:
                super().close()


class Entry:
    """Represent an entry that os.scandir yields."""

    def __init__(self, directory: str, name: str, node: Node) -> None:
        self.name, self.path, self._node = name, f"{directory}/{name}", node

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return isinstance(self._node, Directory)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return isinstance(self._node, File)

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return _stat(self._node)

    def inode(self) -> int:
        return self._node.number

    def __fspath__(self) -> str:
        return self.path


def _stat(node: Node) -> os.stat_result:
    kind = stat.S_IFDIR if isinstance(node, Directory) else stat.S_IFREG
    size = len(node.data) if isinstance(node, File) else 0
    seconds = node.mtime_ns // 10**9
    values = (kind | node.mode, node.number, 1, 1, 0, 0, size, seconds, seconds, seconds)
    # mypy's stubs know the first ten only; the rest are times with fractions and in nanoseconds.
    floats = (node.mtime_ns / 1e9,) * 3
    return os.stat_result((*values, *floats, *(node.mtime_ns,) * 3))  # type: ignore[arg-type]


class Mount:
    """Hold the file system and its open files."""

    def __init__(self, system: FileSystem) -> None:
        self.system = system
        self._open: dict[int, tuple[Node, str]] = {}
        self._next = FIRST_HANDLE

    def close_all(self) -> None:
        self._open.clear()

    # What replaces functions of os

    def os_open(self, path: str, flags: int, mode: int = 0o777, **_: Any) -> int:
        node = self.system.open(path, flags, mode)
        self._next += 1
        self._open[self._next] = (node, path)
        return self._next

    def listdir(self, path: str) -> list[str]:
        return sorted(self.system.directory(path).entries)

    def scandir(self, path: str) -> _Scan:
        directory = self.system.directory(path)
        return _Scan([Entry(path, name, node) for name, node in sorted(directory.entries.items())])

    def utime(self, path: str, times: Any = None, *, ns: tuple[int, int] | None = None, **_: Any) -> None:
        node = self.system.find(path)
        node.mtime_ns = ns[1] if ns else int(times[1] * 1e9) if times else self.system.clock()

    def stat(self, path: str, **_: Any) -> os.stat_result:
        return _stat(self.system.find(path))

    def umask(self, mask: int) -> int:
        before, self.system.umask = self.system.umask, mask
        return before

    # What replaces open

    def open(self, path: str, mode: str = "r", **more: Any) -> Any:
        if "r" in mode:
            flags = os.O_RDWR if "+" in mode else os.O_RDONLY
        else:
            flags = (
                os.O_RDWR
                | os.O_CREAT
                | (os.O_TRUNC if "w" in mode else 0)
                | (os.O_EXCL if "x" in mode else 0)
            )
        return self._handle(self.os_open(path, flags, 0o666), mode, more)

    def reopen(self, number: int, mode: str = "r", **more: Any) -> Any:
        return self._handle(number, mode, more)

    def _handle(self, number: int, mode: str, more: dict[str, Any]) -> Any:
        node, path = self._open[number]
        if isinstance(node, Directory):
            raise IsADirectoryError(path)
        handle = Handle(self.system, node, path, number)
        if "a" in mode:
            handle.seek(0, io.SEEK_END)
        if "b" in mode:
            return handle
        return io.TextIOWrapper(handle, encoding=more.get("encoding") or "utf-8", newline=more.get("newline"))

    def fstat(self, number: int) -> os.stat_result:
        return _stat(self._open[number][0])

    def fsync(self, number: int) -> None:
        self.system.sync(*self._open[number])

    # Parquet

    def bytes_of(self, path: str) -> bytes:
        return self.system.file(path).data

    def save(self, path: str, data: bytes) -> None:
        with self.open(path, "wb") as file:
            file.write(data)


class _Scan:
    """Represent what os.scandir returns: an iterator that is closed."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Iterator[Entry]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


class _Writer:
    """Represent a ParquetWriter whose file appears when it is closed."""

    def __init__(self, mount: Mount, path: str, schema: pa.Schema, **more: Any) -> None:
        self._mount, self._path, self._sink = mount, path, pa.BufferOutputStream()
        self._writer = REAL_WRITER(self._sink, schema, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._writer.close()
        if kind is None:
            self._mount.save(self._path, self._sink.getvalue().to_pybytes())


REAL_WRITER, REAL_FILE, REAL_READ = pq.ParquetWriter, pq.ParquetFile, pq.read_table
REAL_WRITE, REAL_METADATA, REAL_SCHEMA = pq.write_table, pq.read_metadata, pq.read_schema
REAL_MEMMAP, REAL_OPEN = np.memmap, io.open


@functools.lru_cache(4096)
def parsed(data: bytes, columns: tuple[str, ...] | None = None) -> pa.Table:
    return REAL_FILE(pa.BufferReader(data)).read(columns and list(columns), use_threads=False)


class _Parsed:
    """Represent a ParquetFile."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.metadata = _metadata(data)
        self.num_row_groups = self.metadata.num_row_groups

    def read_row_group(self, number: int, columns: list[str] | None = None, **_: Any) -> pa.Table:
        return _row_group(self._data, number, tuple(columns) if columns else None)

    def __getattr__(self, name: str) -> Any:
        return getattr(REAL_FILE(pa.BufferReader(self._data)), name)

    def __enter__(self) -> _Parsed:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@functools.lru_cache(4096)
def _row_group(data: bytes, number: int, columns: tuple[str, ...] | None) -> pa.Table:
    file = REAL_FILE(pa.BufferReader(data))
    return file.read_row_group(number, columns=columns and list(columns), use_threads=False)


@functools.lru_cache(4096)
def _metadata(data: bytes) -> pq.FileMetaData:
    return REAL_METADATA(pa.BufferReader(data))


def _inside(path: Any) -> str | None:
    """Return the path as text where it is below /sim."""
    try:
        text = os.fspath(path)
    except TypeError:
        return None
    return text if isinstance(text, str) and text.startswith(ROOT) else None


def _routed(ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any = ".", *rest: Any, **more: Any) -> Any:
        text = _inside(path)
        return real(path, *rest, **more) if text is None else ours(text, *rest, **more)

    return call


def _of_two_paths(ours: Callable[[str, str], Any], real: Callable[..., Any]) -> Callable[..., Any]:
    def call(source: Any, target: Any, **more: Any) -> Any:
        here, there = _inside(source), _inside(target)
        return real(source, target, **more) if here is None or there is None else ours(here, there)

    return call


def _of_handles(mount: Mount) -> dict[str, Callable[..., Any]]:
    """Return what replaces functions of os that take the number of an open file."""
    real = {name: getattr(os, name) for name in ("fsync", "fstat", "close", "write")}

    def fstat(number: int) -> os.stat_result:
        return mount.fstat(number) if number >= FIRST_HANDLE else real["fstat"](number)

    def fsync(number: int) -> None:
        mount.fsync(number) if number >= FIRST_HANDLE else real["fsync"](number)

    def close(number: int) -> None:
        if number < FIRST_HANDLE:
            real["close"](number)

    def write(number: int, data: bytes) -> int:
        if number < FIRST_HANDLE:
            return real["write"](number, data)
        with mount.reopen(number, "ab") as file:
            return file.write(data)

    return {"fsync": fsync, "fstat": fstat, "close": close, "write": write, "umask": mount.umask}


def _of_paths(system: FileSystem, mount: Mount) -> dict[str, Callable[..., Any]]:
    """Return what replaces functions of os that take paths."""
    one_path: dict[str, Callable[..., Any]] = {
        "open": mount.os_open,
        "mkdir": lambda path, mode=0o777, **_: system.mkdir(path, mode),
        "rmdir": lambda path, **_: system.rmdir(path),
        "unlink": lambda path, **_: system.unlink(path),
        "remove": lambda path, **_: system.unlink(path),
        "stat": mount.stat,
        "lstat": mount.stat,
        "chmod": lambda path, mode, **_: system.chmod(path, mode),
        "utime": mount.utime,
        "listdir": mount.listdir,
        "scandir": mount.scandir,
        "listxattr": lambda path, **_: [],
    }
    two_paths = {"rename": system.rename, "replace": system.rename, "link": system.link}
    routed = {name: _routed(ours, getattr(os, name)) for name, ours in one_path.items()}
    return routed | {name: _of_two_paths(ours, getattr(os, name)) for name, ours in two_paths.items()}


def _of_parquet(mount: Mount) -> dict[str, Callable[..., Any]]:
    """Return what replaces the readers and writers of pyarrow.parquet."""

    def read_table(path: str, columns: Any = None, **_: Any) -> pa.Table:
        return parsed(mount.bytes_of(path), tuple(columns) if columns else None)

    def write_table(table: pa.Table, path: Any, **more: Any) -> None:
        if (text := _inside(path)) is None:
            REAL_WRITE(table, path, **more)
            return
        sink = pa.BufferOutputStream()
        REAL_WRITE(table, sink, **more)
        mount.save(text, sink.getvalue().to_pybytes())

    return {
        "read_table": _routed(read_table, REAL_READ),
        "write_table": write_table,
        "ParquetFile": _routed(lambda path, **_: _Parsed(mount.bytes_of(path)), REAL_FILE),
        "read_metadata": _routed(lambda path, **_: _metadata(mount.bytes_of(path)), REAL_METADATA),
        "read_schema": _routed(
            lambda path, **_: _metadata(mount.bytes_of(path)).schema.to_arrow_schema(), REAL_SCHEMA
        ),
        "ParquetWriter": _routed(
            lambda path, schema, **more: _Writer(mount, path, schema, **more), REAL_WRITER
        ),
    }


@contextlib.contextmanager
def mounted(mount: Mount, names: Iterator[str]) -> Iterator[None]:
    """Replace what opens, changes and lists files; `names` are those of temporary files."""

    def open_any(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if isinstance(path, int) and path >= FIRST_HANDLE:
            return mount.reopen(path, mode, **more)
        text = _inside(path)
        return REAL_OPEN(path, mode, *rest, **more) if text is None else mount.open(text, mode, **more)

    def memmap(path: str, kind: Any = np.uint8, *_: Any, **__: Any) -> np.ndarray:
        return np.frombuffer(mount.bytes_of(path), kind)

    replaced: list[tuple[Any, str, Any]] = [
        *((os, name, value) for name, value in (_of_paths(mount.system, mount) | _of_handles(mount)).items()),
        *((pq, name, value) for name, value in _of_parquet(mount).items()),
        (builtins, "open", open_any),
        (io, "open", open_any),
        (shutil, "_use_fd_functions", False),
        (shutil, "_USE_CP_SENDFILE", False),
        (tempfile, "_get_candidate_names", lambda: names),
        (np, "memmap", _routed(memmap, REAL_MEMMAP)),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, value in replaced:
            stack.enter_context(mock.patch.object(place, name, value))
        yield
