"""Read Parquet: a file, or a directory, an archive or a pattern (`…/part-*.parquet`) of parts, read in name order.

source.columns names the columns; ids may be text or whole numbers. They stay dictionaries from the file to the block:
each different id is converted to text once, not once per rating.
"""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.config import Source
from tasks.config.formats import Format
from tasks.errors import UsageError
from tasks.formats._blocks import Piece, RatingBlock, screen
from tasks.formats._files import find, open_files, readable_errors
from tasks.formats._limits import require_bounded
from tasks.formats.csv import places

FORMAT = Format()
_ROW_BYTES = 64  # about what a rating takes in memory, ids included
NAMES = ("*.parquet", "*.parq", "*.pq")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Gather neighbouring row groups of a file, or small files, into pieces of about source.block_bytes."""
    found = find(source, snapshot, NAMES, several=True)
    cut: list[Piece] = []
    small: list[str] = []
    small_bytes = 0
    timed = None
    expanded = 0
    for path, size, (file, stream) in zip(found.files, found.sizes, open_files(found.piece()), strict=True):
        with readable_errors(file):
            table = pq.ParquetFile(stream)
        timed = _same_columns(table.schema_arrow.names, source, file, timed)
        expanded += require_bounded_table(table.metadata, size, source, file)
        require_bounded(expanded, None, source, file)
        groups = [table.metadata.row_group(g).num_rows for g in range(table.metadata.num_row_groups)]
        sizes = np.array(groups, np.int64) * _ROW_BYTES
        if small and small_bytes + sizes.sum() > source.block_bytes:
            cut.append(found.piece(*small))
            small, small_bytes = [], 0
        if sizes.sum() <= source.block_bytes:
            small.append(path)
            small_bytes += int(sizes.sum())
            continue
        block = (np.cumsum(sizes) - sizes) // source.block_bytes
        starts = np.flatnonzero(np.diff(block, prepend=-1)).tolist()
        ends = [*starts[1:], len(groups)]
        cut += [found.piece(path, start=a, stop=b) for a, b in zip(starts, ends, strict=True)]
    return [*cut, found.piece(*small)] if small else cut


def require_bounded_table(table: pq.FileMetaData, size: int | None, source: Source, file: str) -> int:
    """Refuse a file that expands too far; return its bytes, as it states them and at least those of its rows."""
    stated = sum(table.row_group(number).total_byte_size for number in range(table.num_row_groups))
    expanded = max(stated, table.num_rows * _ROW_BYTES)  # a run of equal rows takes a few bytes in the file
    require_bounded(expanded, size, source, file)
    return expanded


def _same_columns(names: list[str], source: Source, file: str, timed: bool | None) -> bool:
    """Refuse a part without the columns, or with a timestamp where those before it have none (or the reverse)."""
    has_time = places(names, source, file).timestamp is not None
    if timed is not None and timed != has_time:
        raise UsageError(
            f"this part has {'a' if has_time else 'no'} column '{source.columns.timestamp}', "
            f"unlike the parts before it",
            where=file,
            remedy="export all parts alike, or set source.columns.timestamp to a column they all have",
        )
    return has_time


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of some row groups; a line is a row of the file."""
    for file, stream in open_files(piece):
        with readable_errors(file):
            columns = source.columns
            table = pq.ParquetFile(stream, read_dictionary=[columns.user, columns.item])
            names = table.schema_arrow.names
            place = places(names, source, file)
            wanted = [names[p] for p in place if p is not None]
            row = 0
            for batch in table.iter_batches(
                batch_size=max(1, source.block_bytes // _ROW_BYTES),
                row_groups=range(piece.start, table.num_row_groups if piece.stop is None else piece.stop),
                columns=wanted,
                use_threads=False,
            ):
                column = {name: batch.column(name) for name in wanted}
                yield screen(
                    ids(column[columns.user], "source.columns.user", file),
                    ids(column[columns.item], "source.columns.item", file),
                    _plain(column[columns.rating]),
                    _plain(column[names[place.timestamp]]) if place.timestamp is not None else None,
                    line_of_row=np.arange(row + 1, row + 1 + len(batch)),
                    source=source,
                    file=file,
                    lines=len(batch),
                )
                row += len(batch)


def ids(column: pa.Array, key: str, file: str) -> pa.DictionaryArray:
    """Return ids as a dictionary of text; `key` is the setting that names their column."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    kind = coded.type.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UsageError(
            f"the column of {key} holds {kind}; ids must be text or whole numbers",
            where=file,
            remedy="export the ids as text",
        )
    return pa.DictionaryArray.from_arrays(coded.indices, pc.cast(coded.dictionary, pa.string()))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
