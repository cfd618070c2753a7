"""Hold group profiles on disk: parts, the published groups.parquet (docs/release-format.md), arrays for look-ups.

Workers write parts, one per block of groups; `join` makes one file of them, a row group each. No process ever holds all
profiles: they are read in blocks, or mapped from the arrays that `unpack` writes.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.kernels.padded import code_type
from tasks.kernels.profile_cells import find_cells

SCHEMA = pa.schema(
    [
        pa.field("group", pa.int32(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
        pa.field("items", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("ratings", pa.binary(), nullable=False),
    ]
)
# Codes of padded profiles made from random factors, in million cells per CPU-second, on a busy machine: uncompressed
# they are written at 1,700 and read at 2,900; zstd level 1 writes 330, reads 880 and halves them; level 3 writes 70;
# lz4 saves 1 %. All profiles of a Netflix-sized release are below 2 GB uncompressed, so they are not compressed. Item
# lists are.
ITEM_LISTS = {"compression": "zstd", "compression_level": 1}
EVERY_ITEM = {"compression": "none"}
ROWS_PER_BLOCK = 1024
BYTES_PER_BLOCK = 4 * 2**20  # fewer rows where profiles are long


@dataclass(frozen=True)
class Coding:
    """Define how a release writes a value: as a number, or as a code that counts steps from the lowest rating."""

    encoding: str
    low: float = 0.0
    step: float | None = None
    unit: str = "rating"

    @classmethod
    def in_steps(cls, scale: tuple[float, float], step: float) -> "Coding":
        """Return the smallest codes that hold every step of the scale."""
        return cls({1: "uint8", 2: "uint16"}[code_type(scale, step).itemsize], scale[0], step)

    @classmethod
    def of(cls, config: ReleaseConfig) -> "Coding":
        """Return the coding of the method's profiler, or steps of the scale where it declares none."""
        if methods.method(config).profiler is not None:
            profiler = methods.profiler(config)
            if hasattr(profiler, "coding"):
                return profiler.coding(config)
        return cls.in_steps(config.source.scale, config.privacy.rating_step)

    @property
    def dtype(self) -> np.dtype:
        """Return the little-endian type of a code."""
        return np.dtype(self.encoding).newbyteorder("<")

    def values(self, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes, as float32."""
        if self.step is None:
            return codes
        return codes * np.float32(self.step) + np.float32(self.low)


@dataclass(frozen=True)
class Profiles:
    """Hold profiles of consecutive groups: cell c of row r is at indptr[r] + c; items None: every item, in order."""

    groups: np.ndarray
    sizes: np.ndarray
    indptr: np.ndarray
    items: np.ndarray | None
    codes: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of items each group holds."""
        return np.diff(self.indptr)

    def matrix(self, values: np.ndarray, n_items: int) -> sp.csr_array:
        """Return a matrix of one value per cell; only for profiles that list their items."""
        assert self.items is not None
        return sp.csr_array((values, self.items, self.indptr), shape=(len(self.sizes), n_items))

    def rows(self, start: int, stop: int) -> "Profiles":
        """Return some of these groups."""
        cells = slice(self.indptr[start], self.indptr[stop])
        return Profiles(
            self.groups[start:stop],
            self.sizes[start:stop],
            self.indptr[start : stop + 1] - self.indptr[start],
            None if self.items is None else self.items[cells],
            self.codes[cells],
        )

    def cells(self, row: np.ndarray, item: np.ndarray) -> np.ndarray:
        """Return the codes of single cells as float64, NaN where the group does not hold the item."""
        if self.items is None:
            return self.codes[self.indptr[row] + item].astype(np.float64)
        place = find_cells(self.indptr, self.items, row, item)
        found = np.full(len(place), np.nan)
        found[place >= 0] = self.codes[place[place >= 0]]
        return found


def write_dense(path: Path, first_group: int, sizes: np.ndarray, codes: np.ndarray) -> None:
    """Write a part of profiles that rate every item, one row of codes per group."""
    _write(path, first_group, sizes, None, np.full(len(codes), codes.shape[1]), codes.reshape(-1))


def write_sparse(path: Path, first_group: int, sizes: np.ndarray, codes: sp.csr_array) -> None:
    """Write a part of profiles that rate some items (column indices sorted)."""
    _write(path, first_group, sizes, codes.indices, np.diff(codes.indptr), codes.data)


def join(parts: Sequence[Path], path: Path, progress: Callable[[int], None] = lambda done: None) -> None:
    """Write one file of the parts, each a row group of its own, and remove them."""
    with _row_groups(path) as add:
        for done, part in enumerate(parts, start=1):
            with pa.memory_map(str(part)) as source:
                add(pa.ipc.open_file(source).read_all())
            part.unlink()
            progress(done)


def write_dense_blocks(path: Path, blocks: Iterable[tuple[int, np.ndarray, np.ndarray]]) -> int:
    """Write profiles that rate every item directly to the file, each block (first group, sizes, codes) a row group of
    its own; return the number of cells."""
    cells = 0
    with _row_groups(path) as add:
        for first_group, sizes, codes in blocks:
            counts = np.full(len(codes), codes.shape[1])
            add(_table(first_group, sizes, None, counts, codes.reshape(-1)))
            cells += codes.size
    return cells


@contextlib.contextmanager
def _row_groups(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Open a file and yield a function that adds a table to it as a row group."""
    with contextlib.ExitStack() as open_files:
        writer = None

        def add(table: pa.Table) -> None:
            nonlocal writer
            if writer is None:
                packed = EVERY_ITEM if table.column("items").null_count == len(table) else ITEM_LISTS
                plain = {"write_statistics": False, "use_dictionary": False}
                writer = open_files.enter_context(pq.ParquetWriter(path, SCHEMA, **packed, **plain))
            writer.write_table(table, row_group_size=len(table))

        yield add


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables as `table_of` makes them, each a row group of its own."""
    with _row_groups(path) as add:
        for table in tables:
            add(table)


def table_of(
    first_group: int, sizes: np.ndarray, items: Sequence[np.ndarray | None], codes: Sequence[np.ndarray]
) -> pa.Table:
    """Return a table of consecutive groups, of which some hold every item (None) and others list theirs."""
    columns = [
        pa.array(np.arange(first_group, first_group + len(sizes)), pa.int32()),
        pa.array(sizes, pa.int32()),
        pa.array(items, SCHEMA.field("items").type),
        pa.array([np.ascontiguousarray(some).tobytes() for some in codes], pa.binary()),
    ]
    return pa.table(columns, schema=SCHEMA)


def is_dense(path: Path) -> bool:
    """Return whether all profiles rate every item; in a series some may, and older ones not."""
    rows = 0
    for batch in _open(path).iter_batches(columns=["items"]):
        if batch.column(0).null_count < len(batch):
            return False
        rows += len(batch)
    return rows > 0


def read_sizes(path: Path) -> np.ndarray:
    """Return the group sizes, by group number."""
    return pq.read_table(path, columns=["size"]).column("size").to_numpy()


def count_ratings(path: Path, n_items: int, code_type: np.dtype) -> int:
    """Return how many ratings the release holds: each member of a group has its whole profile."""
    if is_dense(path):
        return n_items * int(read_sizes(path).sum(dtype=np.int64))
    batches = _open(path).iter_batches(columns=["size", "ratings"], batch_size=ROWS_PER_BLOCK)
    cells = (
        pc.binary_length(batch.column("ratings")).to_numpy().astype(np.int64)
        @ batch.column("size").to_numpy()
        for batch in batches
    )
    return int(sum(cells)) // code_type.itemsize


def row_groups(path: Path) -> list[int]:
    """Return the number of profiles in each row group of the file, in order."""
    found = pq.read_metadata(path)
    return [found.row_group(number).num_rows for number in range(found.num_row_groups)]


def blocks(path: Path, code_type: np.dtype, most: int = ROWS_PER_BLOCK) -> Iterator[Profiles]:
    """Yield all profiles in order, at most `most` groups at a time and fewer where they are long."""
    known = pq.read_metadata(path)
    for number in range(known.num_row_groups):
        group = known.row_group(number)
        fitting = BYTES_PER_BLOCK * group.num_rows // max(group.total_byte_size, 1)
        # Opened anew: pages read from a mapping count as this process' memory until the mapping is closed.
        for batch in _open(path).iter_batches(max(1, min(most, fitting)), row_groups=[number]):
            yield _profiles(batch, code_type)


def read_row_group(path: Path, number: int, code_type: np.dtype) -> Profiles:
    """Return the profiles of one row group, as many as `join` was given in one part."""
    [batch] = _open(path).read_row_group(number).combine_chunks().to_batches()
    return _profiles(batch, code_type)


def unpack(path: Path, directory: Path, code_type: np.dtype) -> None:
    """Write all profiles as plain arrays that any process can map: see `open_unpacked`."""
    directory.mkdir()
    dense = is_dense(path)
    lengths = [np.zeros(1, np.int64)]
    with (directory / "items").open("wb") as items, (directory / "codes").open("wb") as codes:
        for block in blocks(path, code_type):
            lengths.append(block.lengths)
            codes.write(block.codes.data)
            if block.items is not None and not dense:
                items.write(np.ascontiguousarray(block.items, np.int32).data)
    np.save(directory / "indptr.npy", np.cumsum(np.concatenate(lengths)))
    np.save(directory / "sizes.npy", read_sizes(path))


def open_unpacked(directory: Path, code_type: np.dtype) -> Profiles:
    """Open profiles as `unpack` wrote them, memory-mapped: only the pages used are read."""
    indptr, sizes = (np.load(directory / f"{name}.npy", mmap_mode="r") for name in ("indptr", "sizes"))

    def mapped(name: str, kind: np.dtype) -> np.ndarray:
        file = directory / name  # an empty file cannot be mapped
        return np.memmap(file, kind, "r") if file.stat().st_size else np.empty(0, kind)

    items, codes = mapped("items", np.dtype("<i4")), mapped("codes", code_type)
    return Profiles(
        np.arange(len(sizes)), sizes, indptr, items if len(items) or not len(codes) else None, codes
    )


def _open(path: Path) -> pq.ParquetFile:
    # Buffering ahead would hold all row groups at once.
    return pq.ParquetFile(path, memory_map=True, pre_buffer=False)


def _profiles(batch: pa.RecordBatch, code_type: np.dtype) -> Profiles:
    ends, codes = _binary(batch.column("ratings"))
    indptr = (ends - ends[0]).astype(np.int64) // code_type.itemsize
    return Profiles(
        batch.column("group").to_numpy(),
        batch.column("size").to_numpy(),
        indptr,
        _items(batch.column("items"), indptr),
        codes[ends[0] : ends[-1]].view(code_type),
    )


def _binary(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return where each value of a binary column ends (and the first begins), and the bytes of all."""
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def _items(column: pa.ListArray, indptr: np.ndarray) -> np.ndarray | None:
    """Return the items of all cells; None where every group holds every item."""
    if column.null_count == len(column):
        return None
    listed = column.flatten().to_numpy()
    if column.null_count == 0:
        return listed
    every = np.repeat(column.is_null().to_numpy(zero_copy_only=False), np.diff(indptr))
    items = (np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr))).astype(np.int32)
    items[~every] = listed
    return items


def _write(
    path: Path,
    first_group: int,
    sizes: np.ndarray,
    items: np.ndarray | None,
    counts: np.ndarray,
    codes: np.ndarray,
) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_table(_table(first_group, sizes, items, counts, codes))


def _table(
    first_group: int,
    sizes: np.ndarray,
    items: np.ndarray | None,
    counts: np.ndarray,
    codes: np.ndarray,
) -> pa.Table:
    rows = len(sizes)
    ends = np.concatenate([[0], np.cumsum(counts)])
    in_bytes = (ends * codes.dtype.itemsize).astype(np.int32)  # a part is far below 2 GB
    buffers = [None, pa.py_buffer(in_bytes), pa.py_buffer(np.ascontiguousarray(codes))]
    if items is None:
        lists = pa.nulls(rows, SCHEMA.field("items").type)
    else:
        lists = pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), pa.array(items, pa.int32()), type=SCHEMA.field("items").type
        )
    columns = [
        pa.array(np.arange(first_group, first_group + rows), pa.int32()),
        pa.array(sizes, pa.int32()),
        lists,
        pa.BinaryArray.from_buffers(pa.binary(), rows, buffers),
    ]
    return pa.table(columns, schema=SCHEMA)
