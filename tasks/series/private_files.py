"""Find and remove source ids in the owner's files of a release: an erased person must not be left in any of them.

membership.parquet keeps the row (its pseudonym and group were public) with a random name in place of the id. Tables
lose the person's rows, JSON and text lose the id. Intermediates of steps (work/) hold the person's ratings by row
number, so a directory with the id in any file goes as a whole: `murmur run` recomputes it. Public files of a withdrawn
release never held an id and stay as they were published.
"""

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.series.tombstones import WITHDRAWN
from tasks.store import owner_only, remove, storage_of, write_bytes

WORK = "work"
LOOKED_AT = 4096  # bytes
SHORTEST_IN_BYTES = 6  # shorter ids occur in binary files by chance

Tokens = Callable[[Iterable[str]], Sequence[bytes]]


@dataclass(frozen=True)
class Cleaned:
    """Hold how many of the owner's files were rewritten, and how many files or directories were removed."""

    rewritten: int
    removed: int

    def __add__(self, other: "Cleaned") -> "Cleaned":
        return Cleaned(self.rewritten + other.rewritten, self.removed + other.removed)


def find_ids(directories: Iterable[Path], tokens: AbstractSet[bytes], tokens_of: Tokens) -> set[str]:
    """Return the source ids in tables below these directories whose token is one of `tokens`.

    After a crash the ledger knows the erased person by the token alone; the files still name that person.
    """
    found: set[str] = set()
    for directory in directories:
        for file in _files(directory):
            if _kind(file) != "table":
                continue
            for values in _texts_of(file):
                known = values.to_pylist()
                found |= {one for one, token in zip(known, tokens_of(known), strict=True) if token in tokens}
    return found


def forget(directories: Iterable[Path], stand_ins: Mapping[str, str]) -> Cleaned:
    """Remove these source ids from every file below the owner's directories of releases. A second time does nothing.

    In memberships each id is replaced by its stand-in, the same in every release: a group keeps its number of people,
    and the judge still sees that the same person was in all of them.
    """
    total, ids = Cleaned(0, 0), stand_ins.keys()
    for directory in directories:
        total += _remove_torn(directory)
        if not ids:
            continue
        work = directory / WORK
        # In an object store they are not read for this: all go.
        unread = work.is_dir() and storage_of(work) is not None
        if unread or any(_holds(file, ids) for file in _files(work)):
            remove(work)
            total += Cleaned(0, 1)
        for file in [file for file in _files(directory) if _holds(file, ids)]:
            total += _clean(file, stand_ins)
    return total


def _files(directory: Path) -> Iterator[Path]:
    """Yield the owner's files, hidden ones too, except those that were public."""
    for root, below, names in os.walk(directory):
        if WITHDRAWN in below and Path(root) == directory:
            below.remove(WITHDRAWN)
        yield from (Path(root) / name for name in sorted(names))


def _remove_torn(directory: Path) -> Cleaned:
    """Remove tables that a crash cut off: nobody can read them, nor see whose ids they hold. The owner's files in their
    final places were synced before they got there: a damaged one stays, for a repair from a backup."""
    torn = [
        file
        for file in _files(directory)
        if (file.parent != directory or file.name.startswith(".")) and _is_torn(file)
    ]
    for file in torn:
        file.unlink()
    return Cleaned(0, len(torn))


def _is_torn(file: Path) -> bool:
    """Return whether a file begins as a table, or has the name of one, and is none."""
    kind = _kind(file)
    if kind == "nothing" or (kind != "table" and file.suffix != ".parquet"):
        return False
    try:
        pq.read_metadata(file)
    except (pa.ArrowException, OSError):
        return True
    return False


def _kind(file: Path) -> str:
    """Return what a file holds, by its first bytes: a copy that a crash left has another name. A file that was
    removed since it was listed, as an approver's temporary file may be, holds nothing."""
    try:
        with file.open("rb") as opened:
            start = opened.read(LOOKED_AT)
    except FileNotFoundError:
        return "nothing"
    if start.startswith(b"PAR1"):
        return "table"
    if start.startswith((b"\x93NUMPY", b"PK")):
        return "arrays"
    return "bytes" if b"\0" in start else "json" if file.suffix == ".json" else "text"


def _holds(file: Path, ids: AbstractSet[str]) -> bool:
    """Return whether a file decodes to one of the ids."""
    kind = _kind(file)
    if kind == "nothing":
        return False
    if kind == "table":
        wanted = pa.array(sorted(ids), pa.string())
        return any(bool(pc.any(pc.is_in(one, value_set=wanted)).as_py()) for one in _texts_of(file))
    if kind == "arrays":
        return any(one in ids for one in _texts_in_array(file))
    if kind == "json":
        return _in_json(file, ids)
    if kind == "bytes":  # short ids occur there by chance
        ids = {one for one in ids if len(one) >= SHORTEST_IN_BYTES}
    return bool(ids) and _pattern(ids).search(file.read_bytes()) is not None


def _in_json(file: Path, ids: AbstractSet[str]) -> bool:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return _pattern(ids).search(file.read_bytes()) is not None
    return _without(value, ids) != value


def _texts_of(file: Path) -> Iterator[pa.Array]:
    """Yield the distinct texts of each column of a table, nested ones too."""
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError):  # cut off: no reader takes it for a table
        return
    for column in table.columns:
        for chunk in column.chunks:
            yield from _texts(chunk)


def _texts(values: pa.Array) -> Iterator[pa.Array]:
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _texts(values.dictionary)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield pc.drop_null(pc.unique(values)).cast(pa.string())
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _texts(values.flatten())
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _texts(part)


def _texts_in_array(file: Path) -> set[str]:
    try:
        loaded = np.load(file, mmap_mode="r", allow_pickle=False)
        arrays = [loaded] if isinstance(loaded, np.ndarray) else [loaded[name] for name in loaded.files]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        return set()
    found: set[str] = set()
    for array in arrays:
        if array.dtype.kind == "U":
            found |= set(array.ravel().tolist())
        elif array.dtype.kind == "S":
            found |= {one.decode("utf-8", "replace") for one in array.ravel().tolist()}
    return found


def _pattern(ids: AbstractSet[str]) -> "re.Pattern[bytes]":
    words = sorted((one.encode("utf-8", "surrogatepass") for one in ids), key=len, reverse=True)
    return re.compile(rb"(?<!\w)(?:" + b"|".join(map(re.escape, words)) + rb")(?!\w)")


def _clean(file: Path, stand_ins: Mapping[str, str]) -> Cleaned:
    kind, ids = _kind(file), stand_ins.keys()
    if kind == "table":
        return _clean_table(file, stand_ins)
    if kind in ("arrays", "bytes"):
        return _removed(file)
    text = file.read_bytes()
    try:
        data = json.dumps(_without(json.loads(text), ids), sort_keys=True, indent=1).encode()
    except ValueError:
        data = _pattern(ids).sub(b"erased", text)
    _replace(file, data)
    return Cleaned(1, 0)


def _without(value: Any, ids: AbstractSet[str]) -> Any:
    """Return a JSON value in which no text is one of the ids."""
    if isinstance(value, dict):
        return {_without(key, ids): _without(part, ids) for key, part in value.items()}
    if isinstance(value, list):
        return [_without(part, ids) for part in value]
    return "erased" if isinstance(value, str) and value in ids else value


def _clean_table(file: Path, stand_ins: Mapping[str, str]) -> Cleaned:
    table, ids = pq.read_table(file), stand_ins.keys()
    wanted = pa.array(sorted(ids), pa.string())
    if file.name == "membership.parquet" and "user" in table.column_names:
        users = [stand_ins.get(user, user) for user in table.column("user").to_pylist()]
        _forget_held_out(file.parent, table.filter(pc.is_in(table.column("user"), value_set=wanted)))
        place = table.column_names.index("user")
        table = table.set_column(place, table.schema.field(place), pa.array(users, pa.string()))
    else:
        for name in table.column_names:
            column = table.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                table = table.filter(pc.invert(pc.is_in(column.cast(pa.string()), value_set=wanted)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    before = file.stat()
    _replace(file, sink.getvalue().to_pybytes())
    if _holds(file, ids):  # in a list or a structure
        return _removed(file)
    # When a membership was written says in which order releases were made.
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return Cleaned(1, 0)


def _forget_held_out(directory: Path, people: pa.Table) -> None:
    """Remove which items these people rated from a shadow's release, before their ids go: it has pseudonyms alone."""
    file = directory / "held_out.parquet"
    if file.exists() and "pseudonym" in people.column_names:
        table = pq.read_table(file)
        names = people.column("pseudonym").combine_chunks()
        table = table.filter(pc.invert(pc.is_in(table.column("pseudonym"), value_set=names)))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        _replace(file, sink.getvalue().to_pybytes())


def _replace(file: Path, data: bytes) -> None:
    with owner_only():
        write_bytes(file, data)
    file.chmod(0o600)


def _removed(file: Path) -> Cleaned:
    file.unlink()
    return Cleaned(0, 1)
