"""Group profiles on disk, in the form in which they are published (the contract's groups.parquet).

Written in parts, one per block of groups, then joined: no process ever holds all profiles of a padded release.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

SCHEMA = pa.schema(
    [
        pa.field("group", pa.int32(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
        pa.field("items", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("ratings", pa.binary(), nullable=False),
    ]
)


def write_dense(path: Path, first_group: int, sizes: np.ndarray, codes: np.ndarray) -> None:
    """Profiles that rate every item, one row of codes per group."""
    _write(path, first_group, sizes, None, np.full(len(codes), codes.shape[1]), codes.ravel())


def write_sparse(path: Path, first_group: int, sizes: np.ndarray, codes: sp.csr_array) -> None:
    """Profiles that rate some items (column indices sorted)."""
    _write(path, first_group, sizes, codes.indices, np.diff(codes.indptr), codes.data)


def join(parts: Sequence[Path], path: Path) -> None:
    """Append the parts' row groups to one file, then remove the parts."""
    with pq.ParquetWriter(
        path, SCHEMA, compression="zstd", write_statistics=False, use_dictionary=False
    ) as writer:
        for part in parts:
            writer.write_table(pq.read_table(part, schema=SCHEMA))
    for part in parts:
        part.unlink()


def is_dense(path: Path) -> bool:
    """Whether the profiles rate every item (then `items` is null throughout)."""
    column = pq.read_table(path, columns=["items"]).column("items")
    return column.null_count == len(column)


def read_sizes(path: Path) -> np.ndarray:
    """Group sizes, by group number."""
    return pq.read_table(path, columns=["size"]).column("size").to_numpy()


def read_lengths(path: Path, code_type: np.dtype) -> np.ndarray:
    """Number of items each group holds, by group number."""
    ratings = pq.ParquetFile(path)
    lengths = [
        pc.binary_length(b.column(0)).to_numpy()
        for b in ratings.iter_batches(columns=["ratings"], batch_size=4096)
    ]
    return np.concatenate(lengths).astype(np.int64) // code_type.itemsize


def read_sparse(path: Path, n_items: int, code_type: np.dtype) -> sp.csr_array:
    """All profiles as one matrix of codes + 1, so that code 0 is not taken for an absent cell."""
    table = pq.read_table(path).combine_chunks()
    items = table.column("items").combine_chunks()
    codes = np.frombuffer(b"".join(table.column("ratings").to_pylist()), code_type)
    indptr = items.offsets.to_numpy().astype(np.int64)
    indices = items.values.to_numpy()[indptr[0] : indptr[-1]]
    return sp.csr_array(
        (codes.astype(np.int32) + 1, indices, indptr - indptr[0]), shape=(len(items), n_items)
    )


def read_dense(path: Path, code_type: np.dtype) -> np.ndarray:
    """All profiles of a padded release as one array of codes."""
    ratings = pq.read_table(path, columns=["ratings"]).column("ratings").combine_chunks()
    return np.frombuffer(b"".join(ratings.to_pylist()), code_type).reshape(len(ratings), -1)


def _write(
    path: Path,
    first_group: int,
    sizes: np.ndarray,
    items: np.ndarray | None,
    counts: np.ndarray,
    codes: np.ndarray,
) -> None:
    rows = len(sizes)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    ends = (offsets * codes.dtype.itemsize).astype(np.int64)
    binary = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        rows,
        [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(codes).tobytes())],
    ).cast(pa.binary())
    if items is None:
        lists = pa.nulls(rows, SCHEMA.field("items").type)
    else:
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(items, pa.int32())).cast(
            SCHEMA.field("items").type
        )
    numbers = pa.array(np.arange(first_group, first_group + rows), pa.int32())
    table = pa.table([numbers, pa.array(sizes, pa.int32()), lists, binary], schema=SCHEMA)
    pq.write_table(table, path, compression="zstd", write_statistics=False, use_dictionary=False)
