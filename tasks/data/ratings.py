"""Hold ratings on disk: the same ratings by user and by item, as memory-mapped arrays.

Workers open the directory themselves and read only the pages of their block, so ratings never pass through the Dask
scheduler and need not fit into one process.

    users.parquet  items.parquet            the id of each row and column (strings, sorted)
    attributes.parquet                      attributes of each user, where the source has any (null: not known)
    by_user/  indptr indices values [timestamps] .npy       CSR, items ascending within a user
    by_item/  indptr indices values .npy                    the transpose, users ascending within an item
    added/    indptr indices values .npy                    like by_user: the made-up ones, where there are any
    strata.npy                              people of different strata share no group (tasks/series); absent: all may
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp


@dataclass(frozen=True)
class Side:
    """Hold one orientation of the rating matrix."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    columns: int

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.indptr) - 1

    def block(self, start: int, stop: int) -> sp.csr_array:
        """Return rows start..stop as a SciPy matrix; only these pages are read."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return sp.csr_array(
            (
                np.asarray(self.values[first:last]),
                np.asarray(self.indices[first:last]),
                np.asarray(self.indptr[start : stop + 1]) - first,
            ),
            shape=(stop - start, self.columns),
        )

    def take(self, rows: np.ndarray) -> sp.csr_array:
        """Return the given rows, in the given order, as a SciPy matrix."""
        starts = np.asarray(self.indptr[rows])
        counts = np.asarray(self.indptr[rows + 1]) - starts
        indptr = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], counts)
        return sp.csr_array(
            (np.asarray(self.values[places]), np.asarray(self.indices[places]), indptr),
            shape=(len(rows), self.columns),
        )

    def blocks(self, entries: int = 500_000, rows: int = 50_000) -> list[tuple[int, int]]:
        """Return consecutive row ranges of about `entries` ratings each; they follow the data, not the workers."""
        edges = [0]
        while edges[-1] < self.rows:
            first = edges[-1]
            last = int(np.searchsorted(self.indptr, self.indptr[first] + entries, side="right")) - 1
            edges.append(min(max(last, first + 1), first + rows, self.rows))
        return list(pairwise(edges))

    def whole(self) -> sp.csr_array:
        """Return all rows as a SciPy matrix."""
        return self.block(0, self.rows)

    def counts(self) -> np.ndarray:
        """Return the number of ratings of each row."""
        return np.diff(self.indptr)


@dataclass(frozen=True)
class UserBlock:
    """Hold consecutive users; arrays are read when they are asked for, by a mapping of their own.

    Pages read from a mapping count as this process' memory until it is closed: whoever looks at all ratings, block by
    block, would hold all of them.
    """

    ratings: "Ratings"
    start: int
    stop: int
    first: int  # the place of the first of their ratings among all
    indptr: np.ndarray  # from 0

    @property
    def cells(self) -> slice:
        """Return the places of their ratings among all."""
        return slice(self.first, self.first + int(self.indptr[-1]))

    def items(self) -> np.ndarray:
        """Return the items of their ratings."""
        return np.asarray(self.ratings.by_user.indices[self.cells])

    def values(self) -> np.ndarray:
        """Return their ratings."""
        return np.asarray(self.ratings.by_user.values[self.cells])

    def times(self) -> np.ndarray:
        """Return the times of their ratings; only where the source has times."""
        times = self.ratings.timestamps
        assert times is not None
        return np.asarray(times[self.cells])


class Ratings:
    """Hold a directory of ratings, opened lazily; cheap to send to a worker."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    @property
    def by_user(self) -> Side:
        """Return the ratings with users as rows."""
        return self._side("by_user", self.n_items)

    @property
    def by_item(self) -> Side:
        """Return the ratings with items as rows."""
        return self._side("by_item", self.n_users)

    @property
    def added(self) -> Side | None:
        """Return the made-up ratings (tasks/steps/obfuscation.py), users as rows; None: all ratings are real."""
        return self._side("added", self.n_items) if (self.directory / "added").is_dir() else None

    def made_up_of(self, users: np.ndarray) -> sp.csr_array | None:
        """Return the made-up ratings of these users."""
        return None if self.added is None else self.added.take(users)

    def real_raters(self) -> np.ndarray:
        """Return how many users really rated each item."""
        counts = self.by_item.counts()
        return (
            counts if self.added is None else counts - np.bincount(self.added.indices, minlength=len(counts))
        )

    @property
    def n_users(self) -> int:
        """Return the number of users."""
        return pq.read_metadata(self.directory / "users.parquet").num_rows

    @property
    def n_items(self) -> int:
        """Return the number of items."""
        return pq.read_metadata(self.directory / "items.parquet").num_rows

    @property
    def timestamps(self) -> np.ndarray | None:
        """Return the seconds since 1970 of each rating in by_user order, where the source has them."""
        path = self.directory / "by_user" / "timestamps.npy"
        return np.load(path, mmap_mode="r") if path.exists() else None

    def strata(self) -> np.ndarray:
        """Return the stratum of each user: only users of one stratum may share a group."""
        path = self.directory / "strata.npy"
        return np.load(path) if path.exists() else np.zeros(self.n_users, np.int32)

    def user_ids(self) -> pa.Array:
        """Return the source ids of the users, by row. Secret: never outside private/."""
        return pq.read_table(self.directory / "users.parquet").column("user").combine_chunks()

    def item_ids(self) -> list[str]:
        """Return the ids of the items, by column."""
        return pq.read_table(self.directory / "items.parquet").column("item").to_pylist()

    def attributes(self) -> dict[str, pa.DictionaryArray]:
        """Return the users' classes by attribute and row (null: not known). Secret: never outside private/."""
        path = self.directory / "attributes.parquet"
        if not path.exists():
            return {}
        table = pq.read_table(path)
        return {name: table.column(name).combine_chunks().dictionary_encode() for name in table.column_names}

    def _side(self, name: str, columns: int) -> Side:
        def load(array: str) -> np.ndarray:
            return np.load(self.directory / name / f"{array}.npy", mmap_mode="r")

        return Side(load("indptr"), load("indices"), load("values"), columns)


def user_blocks(ratings: Ratings, entries: int = 2_000_000) -> Iterator[UserBlock]:
    """Yield all users in blocks of about so many ratings."""
    for start, stop in ratings.by_user.blocks(entries):
        indptr = np.asarray(ratings.by_user.indptr[start : stop + 1])
        yield UserBlock(ratings, start, stop, int(indptr[0]), indptr - indptr[0])


def places(wanted: pa.Array, among: pa.Array) -> np.ndarray:
    """Return the position of each id among others; −1: not there."""
    return (
        pc.fill_null(pc.index_in(wanted, value_set=among), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )


def write_ids(directory: Path, column: str, ids: pa.Array | list[str]) -> None:
    """Write users.parquet or items.parquet."""
    table = pa.table({column: pa.array(ids, pa.string())})
    pq.write_table(table, directory / f"{column}s.parquet", compression="zstd")


def class_numbers(attribute: pa.DictionaryArray) -> np.ndarray:
    """Return each user's class as a number, −1 where not known; numbered by name, whatever the order of rows."""
    names = pc.sort_indices(attribute.dictionary).to_numpy()
    number = np.empty(len(names) + 1, np.int64)
    number[names], number[-1] = np.arange(len(names)), -1
    return number[pc.fill_null(attribute.indices, -1).to_numpy(zero_copy_only=False)]


def write_attributes(directory: Path, attributes: dict[str, pa.Array]) -> None:
    """Write attributes.parquet, a row per user."""
    table = pa.table({name: values.cast(pa.string()) for name, values in attributes.items()})
    pq.write_table(table, directory / "attributes.parquet", compression="zstd")


def write_matrix(directory: Path, matrix: sp.csr_array, timestamps: np.ndarray | None = None) -> None:
    """Write both orientations of a matrix that fits into memory (ids are written by the caller)."""
    matrix = sp.csr_array(matrix)
    if not matrix.has_sorted_indices:
        if timestamps is not None:
            raise ValueError("sort the indices together with the timestamps before writing")
        matrix.sort_indices()
    _write_side(directory / "by_user", matrix)
    if timestamps is not None:
        np.save(directory / "by_user" / "timestamps.npy", timestamps.astype(np.int64))
    _write_side(directory / "by_item", sp.csr_array(matrix.T.tocsr()))


def write_added(directory: Path, added: sp.csr_array) -> None:
    """Write which of the ratings are made up."""
    _write_side(directory / "added", added)


def write_chunks(path: Path, dtype: type, length: int, chunks: Iterable[np.ndarray]) -> None:
    """Write a .npy file chunk by chunk; not through a mapping, where a full disk ends the process with a signal."""
    with path.open("wb") as file:
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype).data)


def _write_side(directory: Path, matrix: sp.csr_array) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / "indptr.npy", matrix.indptr.astype(np.int64))
    np.save(directory / "indices.npy", matrix.indices.astype(np.int32))
    np.save(directory / "values.npy", matrix.data.astype(np.float32))
