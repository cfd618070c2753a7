"""Write a published release as ordinary (user, item, rating) rows, for programs that do not know groups.

Every member of a group is written with the group's whole profile, in the order of the groups and of the pseudonyms
within them. Synthetic rows have no members: each is written once, under a made-up name. Memory holds the ids and one
block, for a release of any size.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.data import profiles
from tasks.data.refined import Refiner
from tasks.data.spreadsheets import FORMULA_MARKS, TEXT_MARK, needs_mark
from tasks.errors import DiskFull, Refused, UsageError, is_full
from tasks.formats import damaged, read_published, safe_rows
from tasks.kernels.text_rows import tail_bytes, write_rows
from tasks.store import digest, read_published_json, remove, sync_directory

TEXT_BYTES = 8 * 2**20  # collected before they are written
DATA_FILES = ("groups.parquet", "members.parquet", "items.parquet")
LARGEST_RATING = 1e6
CELLS_PER_BLOCK = 50_000  # of profiles; a float takes about 60 bytes while it becomes text
ENCODINGS: dict[str, np.dtype] = {
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "float32": np.dtype("<f4"),
}
Report = Callable[[int, int], None]
SYNTHETIC = "dp-synthetic"  # the method whose records are nobody's


@dataclass(frozen=True)
class Layout:
    """Define how a format writes rows, which characters it cannot represent in an id, and which not at its beginning.

    `quoted`: any id can be represented, quoted where necessary, and none is evaluated as a formula.
    """

    header: str
    separator: str
    end: str
    quoted: bool
    forbidden: str
    file: Callable[[Path], str | None]  # the file's name inside OUT; None: OUT is the file
    forbidden_first: str = ""

    def field(self, text: str) -> str:
        """Return an id as this format writes it.

        An id that begins with the mark of text gets a second one: without its first mark every marked id is exact.
        """
        if not self.quoted:
            return text
        marked = needs_mark(text)
        if marked or any(character in text for character in f'{self.separator}"\r\n'):
            return '"' + TEXT_MARK * marked + text.replace('"', '""') + '"'
        return text


# MovieLens' own files quote nothing and have a time for each rating; a release has none: 0. RecBole expects a file with
# the name of its directory.
LAYOUTS = {
    "csv": Layout("user,item,rating\n", ",", "\n", True, "", lambda out: None),
    "movielens": Layout(
        "userId,movieId,rating,timestamp\n",
        ",",
        ",0\n",
        False,
        ',"\r\n',
        lambda out: "ratings.csv",
        FORMULA_MARKS,
    ),
    "recbole": Layout(
        "user_id:token\titem_id:token\trating:float\n",
        "\t",
        "\n",
        False,
        '\t"\r\n',
        lambda out: f"{out.name}.inter",
    ),
}


@dataclass(frozen=True)
class Texts:
    """Hold many short texts in one array of bytes: text i is data[at[i] : at[i + 1]]."""

    data: np.ndarray
    at: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array) -> "Texts":
        """Return texts from strings."""
        array = texts.cast(pa.large_string())
        _, ends, data = array.buffers()
        return cls(
            np.frombuffer(data, np.uint8) if data and data.size else np.empty(0, np.uint8),
            np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1],
        )


def expand(
    published: Path, to: str, out: Path, progress: Report, earlier: Sequence[Path] = ()
) -> dict[str, Any]:
    """Write a release in the format `to`; `out` appears whole or not at all. Return what was written.

    With all `earlier` releases of the series, in any order, profiles of older cohorts are re-estimated
    (tasks/data/refined.py).
    """
    layout = LAYOUTS[to]
    out = out.absolute()
    require_absent(out)
    manifest = verified(published)
    if earlier and SYNTHETIC in (
        manifest.get("method"),
        *(verified(place).get("method") for place in earlier),
    ):
        raise UsageError(
            "synthetic rows have no older cohorts: each release of them is drawn anew, and none follows from another",
            where="--earlier",
            remedy="leave it out",
        )
    with damaged(published):
        refiner = Refiner.of(earlier, published) if earlier else None
    items = _texts_of(read_published(published / "items.parquet", ["item"]), "item")
    members = _members(published, manifest)
    names = _texts_of(members, "user")
    _require_writable(items, layout, to, published / "items.parquet")
    _require_writable(names, layout, to, published / "members.parquet")
    groups = members.column("group").to_numpy()
    name = layout.file(out)
    rows = listed = size = 0
    with arriving(out) as beside:
        if name:
            beside.mkdir()
        place = beside / name if name else beside
        with place.open("wb", buffering=0) as file:
            file.write(layout.header.encode())
            fields = [layout.separator + layout.field(item) + layout.separator for item in items]
            writer = _Writer(file, Texts.of(pa.array(fields, pa.string())), layout, manifest)
            progress(0, len(names))
            for block in _blocks(published / "groups.parquet", writer.kind):
                _require(bool((np.diff(block.groups) > 0).all()), "groups out of order")
                done = listed
                listed = int(np.searchsorted(groups, block.groups[-1], side="right"))
                local = np.searchsorted(block.groups, groups[done:listed])
                _require(np.array_equal(block.groups[local], groups[done:listed]), "members of no group")
                block = block if refiner is None else refiner.refined(block)
                rows += writer.write(block, local, [layout.field(user) for user in names[done:listed]])
                progress(listed, len(names))
            _require(listed == len(names), "members of no group")
            os.fsync(file.fileno())
            size = file.tell()
    return {
        "status": "written",
        "format": to,
        "out": str(out),
        "file": str(out / name if name else out),
        "unit": manifest.get("unit", "rating"),
        "refined": refiner is not None and refiner.changes,
        "counts": {"users": len(names), "items": len(items), "rows": rows, "bytes": size},
    }


def _members(published: Path, manifest: dict[str, Any]) -> pa.Table:
    """Return who is written with which profile, in the order in which they are written."""
    if manifest.get("method") != SYNTHETIC:
        members = read_published(published / "members.parquet", ["user", "group"])
        group = members.column("group")
        _require(group.null_count == 0 and pa.types.is_integer(group.type), "members without a group")
        return members.sort_by([("group", "ascending"), ("user", "ascending")])
    groups = read_published(published / "groups.parquet", ["group"]).column("group").combine_chunks()
    names = [f"row-{number:07}" for number in range(1, len(groups) + 1)]
    return pa.table({"user": pa.array(names, pa.string()), "group": groups}).sort_by("group")


def _texts_of(table: pa.Table, name: str) -> list[str]:
    """Return the ids of a column; a release has an id in every row."""
    column = table.column(name)
    _require(column.null_count == 0 and pa.types.is_string(column.type), "rows without an id")
    return column.to_pylist()


def require_absent(out: Path) -> None:
    """Refuse a place that is taken, or whose directory is not there."""
    if out.exists() or out.is_symlink():
        raise UsageError(
            "the output exists already", where=str(out), remedy="choose another place or remove it"
        )
    if not out.parent.is_dir():
        raise UsageError("there is no such directory", where=str(out.parent), remedy="create it first")


def _blocks(path: Path, kind: np.dtype) -> Iterator[profiles.Profiles]:
    """Yield all profiles in blocks of at most CELLS_PER_BLOCK cells, or of one profile."""
    with damaged(path):
        yield from _cut_blocks(profiles.blocks(path, kind, safe_rows(path, profiles.ROWS_PER_BLOCK)))


def _cut_blocks(blocks: Iterable[profiles.Profiles]) -> Iterator[profiles.Profiles]:
    for block in blocks:
        start = 0
        while start < len(block.groups):
            full = np.searchsorted(block.indptr, block.indptr[start] + CELLS_PER_BLOCK, side="right")
            stop = max(start + 1, int(full) - 1)
            yield block.rows(start, stop)
            start = stop


class _Writer:
    """Write blocks of profiles as lines."""

    def __init__(self, file: BinaryIO, items: Texts, layout: Layout, manifest: dict[str, Any]) -> None:
        self.kind, low, step = _coding(manifest)
        self._file, self._items, self._end = file, items, layout.end
        self._buffer = np.empty(0, np.uint8)
        self._known: Texts | None = None
        if self.kind.kind == "u":
            codes = np.arange(256**self.kind.itemsize)
            # Rounded, because 1 + 23 · 0.1 is 3.3000000000000003; adding 0 makes no rating "-0.0".
            values = np.round(low + codes * step, 9) + 0.0
            self._known = Texts.of(pa.array([f"{value}{self._end}" for value in values.tolist()]))

    def write(self, block: profiles.Profiles, groups: np.ndarray, users: list[str]) -> int:
        """Write all rows of some members, each of them in the given group of the block; return their number."""
        items = np.empty(0, np.int32) if block.items is None else block.items
        self._require_sound(block)
        if self._known is None:
            # As text a float has the fewest digits from which it can be read back.
            shortest = pa.array(block.codes).cast(pa.string())
            ratings = Texts.of(pc.binary_join_element_wise(shortest, self._end, ""))
            codes = np.arange(len(block.codes))
        else:
            ratings, codes = self._known, block.codes
        names = Texts.of(pa.array(users, pa.string()))
        shared = (block.indptr, items, codes)
        tails = tail_bytes(*shared, self._items.at, ratings.at)
        needed = np.diff(names.at) * block.lengths[groups] + tails[groups]
        written = np.cumsum(needed) // TEXT_BYTES
        edges = [0, *(np.flatnonzero(np.diff(written)) + 1).tolist(), len(users)]
        for start, stop in pairwise(edges):
            room = int(needed[start:stop].sum())
            if room > len(self._buffer):
                self._buffer = np.empty(room, np.uint8)
            at = names.at[start : stop + 1]
            texts = (self._items.data, self._items.at, ratings.data, ratings.at)
            end = write_rows(groups[start:stop], names.data, at, *shared, *texts, self._buffer)
            _write_all(self._file, self._buffer[:end])
        return int(block.lengths[groups].sum())

    def _require_sound(self, block: profiles.Profiles) -> None:
        every = len(self._items.at) - 1
        if block.items is None:
            sound = bool((block.lengths == every).all())
        else:
            inside = len(block.items) == 0 or 0 <= block.items.min() <= block.items.max() < every
            # A position that is there twice would make rows of any length from a short list.
            ascending = np.diff(block.items) > 0
            firsts = block.indptr[1:-1]
            ascending[firsts[(firsts > 0) & (firsts < len(block.items))] - 1] = True
            sound = len(block.items) == len(block.codes) and bool(inside) and bool(ascending.all())
        _require(sound, "profiles whose items and ratings do not belong together")


def _require(sound: bool, what: str) -> None:
    """Refuse a release whose files have the right digests but contradict each other."""
    if not sound:
        raise Refused(
            f"there are {what}", where="groups.parquet, members.parquet", remedy="run murmur verify on it"
        )


def _write_all(file: BinaryIO, data: np.ndarray) -> None:
    done = 0
    while done < len(data):  # an unbuffered write may take less than it is given
        done += file.write(data[done:].data) or 0


def verified(published: Path) -> dict[str, Any]:
    """Return the manifest, after every file it names was found to have its digest."""
    if not (published / "manifest.json").is_file():
        raise UsageError(
            "there is no release here", where=str(published), remedy="give the directory of a manifest.json"
        )
    try:
        manifest = read_published_json(published / "manifest.json")
        if any(Path(name).name != name for name in manifest["files"]):
            raise ValueError
        wrong = [
            name
            for name, expected in sorted(manifest["files"].items())
            if not (published / name).is_file() or digest(published / name) != expected
        ]
        missing = set(DATA_FILES) - set(manifest["files"])
        _coding(manifest)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise Refused(
            "the manifest cannot be read",
            where=str(published / "manifest.json"),
            remedy="fetch the release again",
        ) from None
    if wrong or missing:
        raise Refused(
            f"not as published: {', '.join([*wrong, *sorted(missing)])}",
            where=str(published),
            remedy="fetch the release again; murmur verify shows details",
        )
    for name in DATA_FILES:
        safe_rows(published / name, 1)
    return manifest


def _coding(manifest: dict[str, Any]) -> tuple[np.dtype, float, float]:
    """Return how ratings are stored, the lowest one and the step between codes (floats need no step)."""
    kind = ENCODINGS[manifest["rating_encoding"]]
    low = float(manifest["rating_scale"][0])
    step = float(manifest["rating_step"]) if kind.kind == "u" else 1.0
    if not abs(low) < LARGEST_RATING or not 0 < step < LARGEST_RATING:
        raise ValueError("rating_scale or rating_step")
    return kind, low, step


def _require_writable(ids: list[str], layout: Layout, to: str, where: Path) -> None:
    """Refuse ids that the format cannot represent, before anything is written."""
    inside = [position for position, text in enumerate(ids) if any(mark in text for mark in layout.forbidden)]
    first = [at for at, text in enumerate(ids) if text.startswith(tuple(layout.forbidden_first))]
    for bad, what, marks, why in (
        (inside, "contain", layout.forbidden, f"which --to {to} cannot represent"),
        (
            first,
            "begin with",
            layout.forbidden_first,
            "which spreadsheet programs would evaluate as formulas",
        ),
    ):
        if bad:
            raise UsageError(
                f"{len(bad):,} ids {what} one of {', '.join(map(repr, marks))}, {why}",
                where=f"{where}, first in row {bad[0] + 1}",
                remedy="use --to csv, which quotes them",
            )


@contextlib.contextmanager
def arriving(out: Path) -> Iterator[Path]:
    """Yield a place beside `out` to write to; it is renamed when all is written and removed when something fails."""
    beside = out.with_name(f".{out.name}.{os.getpid()}.arriving")
    try:
        yield beside
        if out.exists():
            raise UsageError(
                "the output was created by another process", where=str(out), remedy="choose another place"
            )
        beside.rename(out)
        sync_directory(out.parent)
    except OSError as problem:
        if not is_full(problem):
            raise
        raise DiskFull(
            "the disk is full",
            where=str(out.parent),
            remedy="free some space; a padded release has users × items rows",
        ) from None
    finally:
        beside.unlink(missing_ok=True) if beside.is_file() else remove(beside)
