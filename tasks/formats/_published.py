"""Read the Parquet files of a release, which may come from a stranger: in bounded memory, or with a refusal.

Releases compress little: pseudonyms are random, codes are stored as they are. What expands further than
source.max_compression_ratio allows for a source is not a release.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.config import Source
from tasks.errors import MurmurError, Refused, UsageError
from tasks.formats._limits import HARMLESS_BYTES
from tasks.formats._pages import bounded_rows, open_table, row_group_chunks, text_columns

MOST_RATIO = Source.model_fields["max_compression_ratio"].default
VALUE_BYTES = 8  # in memory: a number, or where a text begins


@contextlib.contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn whatever readers raise about a file of a release into one refusal; only reading happens inside."""
    try:
        yield
    except MurmurError:
        raise
    except MemoryError:
        raise _unreadable(path, "it needs more memory than there is") from None
    # Arrow raises an OSError for damaged data, and NumPy a ValueError for parts that do not belong together.
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError):
        raise _unreadable(path, "it is damaged, or no file of a release") from None


@contextlib.contextmanager
def _no_source(path: Path) -> Iterator[None]:
    """Replace the words of readers of sources, whose remedies are about settings of the owner."""
    try:
        yield
    except UsageError as problem:
        raise _unreadable(path, problem.what) from None


def most_bytes(path: Path) -> int:
    """Return how many bytes a file of a release may have in memory."""
    return max(HARMLESS_BYTES, int(path.stat().st_size * MOST_RATIO))


def safe_rows(path: Path, most: int) -> int:
    """Return how many rows of a file of a release may be decoded at once, at most `most`; refuse a file that expands
    too far."""
    with damaged(path), _no_source(path):
        if not path.is_file():
            raise OSError
        with path.open("rb") as stream:
            table = open_table(stream, str(path))
            names, groups = table.file.schema_arrow.names, range(len(table.groups))
            chunks = [
                chunk
                for group in groups
                for chunk in row_group_chunks(stream, table, group, names, str(path))
            ]
            rows = table.file.metadata.num_rows
        values = sum(chunk.values for chunk in chunks)
        expanded = max(sum(chunk.expanded for chunk in chunks), VALUE_BYTES * max(values, rows))
        if rows < 0 or expanded > most_bytes(path):
            raise _unreadable(
                path, f"decompressed it has {expanded:,} bytes, and no release is so well compressed"
            )
        return bounded_rows(chunks, most)


def read_published(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a file of a release, or some of its columns, whole; the texts in it are as long as such a file allows."""
    safe_rows(path, 1)
    with damaged(path), _no_source(path), path.open("rb") as stream:
        opened = open_table(stream, str(path))
        names = opened.file.schema_arrow.names
        if set(columns or ()) - set(names) or len(set(names)) != len(names):
            raise _unreadable(path, f"it lacks one of the columns {', '.join(columns or names)}")
        texts = text_columns(opened, names)
        file = pq.ParquetFile(stream, metadata=opened.file.metadata, read_dictionary=texts, pre_buffer=False)
        table = file.read(columns=list(columns or names), use_threads=False)
        table.validate(full=True)  # texts that are not UTF-8 among others
        return pa.table({name: _plain(table.column(name), path) for name in table.column_names})


def _plain(column: pa.ChunkedArray, path: Path) -> pa.ChunkedArray:
    """Return a column without dictionaries, after its length was found to be bounded."""
    if not pa.types.is_dictionary(column.type):
        return column
    total = sum(
        pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in column.chunks
    )
    if total > most_bytes(path):
        raise _unreadable(path, f"its texts have {total:,} bytes together")
    return column.cast(column.type.value_type)


def _unreadable(path: Path, why: str) -> Refused:
    return Refused(
        f"this file of the release cannot be read: {why}",
        where=str(path),
        remedy="fetch the release again from its owner, or publish it anew",
    )
