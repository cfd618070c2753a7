"""Read the ratings of a source into a matrix in files, without ever holding all of them.

Pieces of the source become *runs*: ids as numbers, rows in the order of the source within small parts of the users
(*grains*). Neighbouring grains with some million ratings form a range, which is assembled from all runs; the ranges are
joined to one file per column, which all processes map. Memory is that of one run or one range per process, whatever the
size of the source and of its longest record.
"""

import datetime
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from numba import njit

from checks.evidence.working_files import mapped
from tasks.config import Source
from tasks.engine import Engine
from tasks.errors import Refused, room_in

if TYPE_CHECKING:
    from tasks.formats import Piece, RatingBlock

PIECES_AT_ONCE = 16
ROWS_AT_ONCE = 2_000_000  # of a run, and about as many of a range
GRAINS = 4_096  # equal parts of the listed users, of which ranges are put together
STRANGER_GRAINS = 256  # people who are not in the release are distributed over these by a hash of their id
COLUMNS = {"users": np.int32, "items": np.int32, "ratings": np.float32, "times": np.int64}
DAY_SECONDS = 86_400
FIRSTS = ("first-users", "first-items")
MOST_FIRSTS = 50_000  # ids whose first row is kept: enough to find any order
NOWHERE = 2**62  # row of an id that the source does not have, or that was not looked for


@dataclass(frozen=True)
class IdArrays:
    """Hold the ids that have numbers: an id's number is its position."""

    users: pa.StringArray
    items: pa.StringArray


@dataclass(frozen=True)
class IdFiles:
    """Read the same ids in a worker, from the owner's own files, so that no id is copied anywhere."""

    private: Path
    published: Path

    @cached_property
    def users(self) -> pa.StringArray:
        """The membership's users."""
        return _column(self.private / "membership.parquet", "user")

    @cached_property
    def items(self) -> pa.StringArray:
        """The release's items."""
        return _column(self.published / "items.parquet", "item")


Ids = IdArrays | IdFiles


def _column(path: Path, name: str) -> pa.StringArray:
    return pq.read_table(path, columns=[name]).column(name).combine_chunks()


@dataclass(frozen=True)
class Matrix:
    """Hold accepted, de-duplicated ratings of listed people and items: the last by time counts, else the last in the
    file.

    `days` is when each rating was given (since 1970), where the source has it; `raters` counts each item's raters in
    the whole source; `seen` marks the listed people whom the source has at all; `first_rows` and `first_item_rows` are
    the rows of the source in which each listed person and item first occurs (NOWHERE: not known).
    """

    ratings: sp.csr_array
    days: np.ndarray | None
    raters: np.ndarray
    seen: np.ndarray
    unlisted_users: int
    unlisted_items: int
    first_rows: np.ndarray
    first_item_rows: np.ndarray


@dataclass(frozen=True)
class Run:
    """Represent some rows of the source in files; those of grain g are from edges[g] to edges[g + 1].

    People who are not listed (strangers) are numbered within the run, by their position in its file of id digests: a
    run travels between processes, and no id travels with it.
    """

    name: str
    edges: np.ndarray
    missing_items: pa.StringArray
    timed: bool
    rows_read: int

    def part(self, grains: tuple[int, int]) -> "RunPart":
        """Return the rows of a range: the edges of all grains need not travel to whoever reads a few of them."""
        first, last = (int(self.edges[grain]) for grain in grains)
        return RunPart(self.name, first, last)


@dataclass(frozen=True)
class RunPart:
    """Represent the rows of a run that belong to one range."""

    name: str
    first: int
    last: int

    def read(self, place: Path, column: str) -> np.ndarray:
        """Read one column."""
        dtype = np.dtype(COLUMNS[column])
        return np.fromfile(
            place / f"{self.name}.{column}",
            dtype,
            self.last - self.first,
            offset=self.first * dtype.itemsize,
        )


def read_matrix(
    source: Source,
    snapshot: datetime.date,
    ids: IdArrays,
    files: IdFiles | None,
    place: Path,
    engine: Engine | None,
) -> Matrix:
    """Read a source; on the engine's workers where they can read the ids from `files`."""
    from tasks.formats import no_ratings, pieces

    engine = engine if engine is not None and engine.workers and files is not None else Engine()
    known: Ids = files if files is not None and engine.workers else ids
    parts = pieces(source, snapshot)
    stretches = [
        (number, parts[first : first + PIECES_AT_ONCE])
        for number, first in enumerate(range(0, len(parts), PIECES_AT_ONCE))
    ]
    found = engine.map(_read_stretch, stretches, source=source, snapshot=snapshot, ids=known, place=place)
    runs = [run for runs in found for run in runs]
    if not sum(run.rows_read for run in runs):
        raise no_ratings(source, snapshot)
    return join(runs, ids, place, engine)


def _read_stretch(
    stretch: tuple[int, list["Piece"]], *, source: Source, snapshot: datetime.date, ids: Ids, place: Path
) -> list[Run]:
    from tasks.formats import read

    number, pieces = stretch
    blocks = (block for piece in pieces for block in read(piece, source, snapshot))
    return list(write_runs(blocks, ids, place, f"run-{number}"))


def write_runs(blocks: Iterable["RatingBlock"], ids: Ids, place: Path, name: str) -> Iterator[Run]:
    """Write blocks of ratings, in the order of the source, to files."""
    waiting: list[RatingBlock] = []
    rows = number = 0
    for block in blocks:
        waiting.append(block)
        rows += len(block.ratings)
        if rows >= ROWS_AT_ONCE:
            yield _write_run(waiting, ids, place, f"{name}-{number}")
            waiting, rows, number = [], 0, number + 1
    if waiting:
        yield _write_run(waiting, ids, place, f"{name}-{number}")


def _write_run(blocks: list["RatingBlock"], ids: Ids, place: Path, name: str) -> Run:
    users, strangers = _numbers([block.users for block in blocks], ids.users)
    items, missing = _numbers([block.items for block in blocks], ids.items)
    firsts = _first_rows(users, len(ids.users)), _first_rows(items, len(ids.items))
    digests = pd.util.hash_array(strangers.to_numpy(zero_copy_only=False))
    away = -1 - np.minimum(users, -1)  # the position among the strangers, where it is one
    grains = users // _grain(len(ids.users))
    if len(strangers):
        bucket = GRAINS + (digests % STRANGER_GRAINS).astype(np.int32)
        grains = np.where(users >= 0, grains, bucket[away])
    timed = all(block.timestamps is not None for block in blocks)
    columns: dict[str, np.ndarray] = {
        "users": np.where(users >= 0, users, away),
        "items": np.maximum(items, -1),
        "ratings": np.concatenate([np.asarray(block.ratings, np.float32) for block in blocks]),
    }
    if timed:
        columns["times"] = np.concatenate([np.asarray(block.timestamps, np.int64) for block in blocks])
    order = None if (grains[1:] >= grains[:-1]).all() else np.argsort(grains.astype(np.uint16), kind="stable")
    with room_in(place, scratch=True):
        for column, values in columns.items():
            (values if order is None else values[order]).tofile(place / f"{name}.{column}")
        digests.tofile(place / f"{name}.strangers")
        for kind, found in zip(FIRSTS, firsts, strict=True):
            found.tofile(place / f"{name}.{kind}")
    counts = np.bincount(grains, minlength=GRAINS + STRANGER_GRAINS)
    edges = np.concatenate([[0], np.cumsum(counts)])
    rows_read = sum(getattr(block, "rows_read", len(block.ratings)) for block in blocks)
    return Run(name, edges, missing, timed, rows_read)


def _first_rows(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return ids that occur, and the first row of each: of every n-th id where there are more than MOST_FIRSTS."""
    first = np.full(count, NOWHERE, np.int64)
    rows = np.flatnonzero(numbers >= 0)[::-1]  # backwards: what is assigned last, the first row, stays
    first[numbers[rows]] = rows
    some = np.arange(0, count, max(1, -(-count // MOST_FIRSTS)))
    there = some[first[some] < NOWHERE]
    return np.stack([there, first[there]])


def _grain(users: int) -> int:
    return max(1, -(-users // GRAINS))


def _numbers(columns: list[pa.Array], known: pa.StringArray) -> tuple[np.ndarray, pa.StringArray]:
    """Return the position of every id among the known ones, and the unknown ids; an unknown id is −1 − its position
    there.

    Every id is looked up once, not once per row.
    """
    codes, names, used = [], [], []
    total = 0
    for column in columns:
        coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        code = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        occurs = np.zeros(len(coded.dictionary), dtype=bool)  # a dictionary may hold what no row has
        occurs[code] = True
        codes.append(code + np.int32(total))
        names.append(coded.dictionary.cast(pa.string()))
        used.append(occurs)
        total += len(occurs)
    everything, occurs = pa.concat_arrays(names), np.concatenate(used)
    place = np.array(pc.fill_null(pc.index_in(everything, value_set=known), -1), dtype=np.int32)
    strange = everything.filter(pa.array((place < 0) & occurs))
    unknown = pc.unique(strange)
    place[(place < 0) & occurs] = -1 - pc.index_in(strange, value_set=unknown).to_numpy().astype(np.int32)
    return place[np.concatenate(codes)], unknown


def join(runs: list[Run], ids: IdArrays, place: Path, engine: Engine | None = None) -> Matrix:
    """Assemble the matrix, range by range."""
    if not sum(int(run.edges[-1]) for run in runs):
        raise Refused(
            "the source has no ratings", where="source", remedy="name the source this release was made from"
        )
    timed = all(run.timed for run in runs)
    sizes = (len(ids.users), len(ids.items))
    first_rows = [_joined_firsts(runs, place, kind, size) for kind, size in zip(FIRSTS, sizes, strict=True)]
    runs = [run for run in runs if run.edges[-1]]
    unlisted_users = len(np.unique(np.concatenate([_strangers(run, place) for run in runs])))
    missing = pc.unique(pa.concat_arrays([run.missing_items for run in runs]))
    ranges = _ranges(np.sum([np.diff(run.edges) for run in runs], axis=0))
    blocks = [(grains, [run.part(grains) for run in runs]) for grains in ranges]
    parts = (engine or Engine()).map(_join_range, blocks, place=place, size=sizes, timed=timed)
    for run in runs:
        for column in (*COLUMNS, *FIRSTS, "strangers"):
            (place / f"{run.name}.{column}").unlink(missing_ok=True)
    listed = [part for part in parts if part["rated"] is not None]
    indptr = np.concatenate([[0], *(part["rated"] for part in listed)]).cumsum()
    if indptr[-1] < 2**31:  # as the columns: SciPy would copy the narrower of the two into memory
        indptr = indptr.astype(np.int32)
    kinds: dict[str, Any] = {"items": np.int32, "ratings": np.float32} | ({"days": np.int32} if timed else {})
    firsts = [first for first, _ in ranges if first < GRAINS]
    arrays = {name: _joined(place, name, firsts, kind) for name, kind in kinds.items()}
    return Matrix(
        sp.csr_array((arrays["ratings"], arrays["items"], indptr), shape=sizes),
        arrays.get("days"),
        np.sum([part["raters"] for part in parts], axis=0),
        np.concatenate([np.zeros(0, dtype=bool), *(part["seen"] for part in listed)]),
        unlisted_users,
        len(missing),
        *first_rows,
    )


def _joined_firsts(runs: list[Run], place: Path, kind: str, count: int) -> np.ndarray:
    """Return the first row of each id over all runs, in the order of the source; NOWHERE where it is not known."""
    firsts, start = np.full(count, NOWHERE, np.int64), 0
    for run in runs:
        there, rows = np.fromfile(place / f"{run.name}.{kind}", np.int64).reshape(2, -1)
        firsts[there] = np.minimum(firsts[there], rows + start)
        start += int(run.edges[-1])
    return firsts


def _ranges(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return neighbouring grains (the first, and the one after the last) with about ROWS_AT_ONCE rows; listed people
    and strangers are never in one range."""
    number = (np.cumsum(rows) - rows) // ROWS_AT_ONCE
    starts = np.union1d(np.flatnonzero(np.diff(number, prepend=-1)), [0, GRAINS]).tolist()
    return list(pairwise([*starts, len(rows)]))


def _strangers(run: Run | RunPart, place: Path) -> np.ndarray:
    return np.fromfile(place / f"{run.name}.strangers", np.uint64)


def _joined(place: Path, name: str, parts: list[int], dtype: type[np.generic]) -> np.ndarray:
    with room_in(place, scratch=True), (place / name).open("wb") as whole:
        for part in parts:
            path = place / f"part-{part}.{name}"
            with path.open("rb") as file:
                shutil.copyfileobj(file, whole, 2**22)
            path.unlink()
    return mapped(place / name, dtype)


def _join_range(
    block: tuple[tuple[int, int], list[RunPart]], *, place: Path, size: tuple[int, int], timed: bool
) -> dict[str, Any]:
    """Assemble one range of users: count its ratings and write the rows of those who are listed."""
    grains, runs = block
    n_users, n_items = size
    wanted = [name for name in COLUMNS if timed or name != "times"]
    table = {name: np.concatenate([run.read(place, name) for run in runs]) for name in wanted}
    listed = grains[0] < GRAINS
    if listed:
        first, last = (min(grain * _grain(n_users), n_users) for grain in grains)
        users: np.ndarray = table["users"] - np.int32(first)
        width = last - first
    else:
        digests = [_strangers(run, place)[run.read(place, "users")] for run in runs]
        users, distinct = pd.factorize(np.concatenate(digests))
        width = len(distinct)
    times = table.get("times", np.zeros(0, np.int64))
    kept = _last_of_each(users.astype(np.int32), table["items"], times, width, n_items)
    seen = np.bincount(users[kept], minlength=width) > 0
    kept = kept[table["items"][kept] >= 0]
    raters = np.bincount(table["items"][kept], minlength=n_items)
    if not listed:
        return {"raters": raters, "seen": seen, "rated": None}
    part = f"part-{grains[0]}"
    with room_in(place, scratch=True):
        table["items"][kept].tofile(place / f"{part}.items")
        table["ratings"][kept].tofile(place / f"{part}.ratings")
        if timed:
            (times[kept] // DAY_SECONDS).astype(np.int32).tofile(place / f"{part}.days")
    return {"raters": raters, "seen": seen, "rated": np.bincount(users[kept], minlength=width)}


@njit(cache=True, nogil=True)
def _last_of_each(users, items, times, n_users, n_items):  # type: ignore[no-untyped-def]
    """Return the positions of the rating that counts for each (user, item), by user, then item.

    A counting sort by item and then by user puts equal cells side by side in the order in which they came.
    """
    by_item = _counted(items, np.arange(len(items), dtype=np.int32), -1, n_items + 1)
    order = _counted(users, by_item, 0, n_users)
    kept = np.empty(len(order), np.int32)
    count = 0
    for n in range(len(order)):
        row = order[n]
        again = n > 0 and users[row] == users[order[n - 1]] and items[row] == items[order[n - 1]]
        if not again:
            kept[count] = row
            count += 1
        elif len(times) == 0 or times[row] >= times[kept[count - 1]]:
            kept[count - 1] = row
    return kept[:count]


@njit(cache=True, nogil=True)
def _counted(keys, order, least, bins):  # type: ignore[no-untyped-def]
    where = np.zeros(bins + 1, np.int64)
    for key in keys:
        where[key - least + 1] += 1
    for b in range(bins):
        where[b + 1] += where[b]
    out = np.empty(len(order), np.int32)
    for row in order:
        bin_ = keys[row] - least
        out[where[bin_]] = row
        where[bin_] += 1
    return out
