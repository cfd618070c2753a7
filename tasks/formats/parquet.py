"""Read Parquet: a file, or a directory, an archive or a pattern (`…/part-*.parquet`) of parts, read in name order.

source.columns names the columns; ids may be text or whole numbers. They stay dictionaries from the file to the block:
each different id is converted to text once, not once per rating.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.config import Source
from tasks.config.formats import Format
from tasks.errors import UsageError
from tasks.formats._blocks import LONGEST_NUMBER, Piece, RatingBlock, screen, shortened
from tasks.formats._files import find, open_files, readable_errors
from tasks.formats._limits import HARMLESS_BYTES, require_bounded
from tasks.formats._pages import (
    Chunk,
    Table,
    bounded_rows,
    contradiction,
    open_table,
    row_group_chunks,
    text_columns,
)
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
            table = open_table(stream, file).file
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
    groups = [table.row_group(number) for number in range(table.num_row_groups)]
    stated = sum(group.total_byte_size for group in groups)
    if any(group.num_rows < 0 or group.total_byte_size < 0 for group in groups) or table.num_rows != sum(
        group.num_rows for group in groups
    ):
        raise contradiction(file)
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
            footer = open_table(stream, file)
            names = footer.file.schema_arrow.names
            place = places(names, source, file)
            wanted = [names[p] for p in place if p is not None]
            groups = range(piece.start, len(footer.groups) if piece.stop is None else piece.stop)
            table = reopened(stream, footer, wanted)
            chunks = require_honest_pages(stream, footer, groups, wanted, file, table)
            row = 0
            for batch in table.iter_batches(
                batch_size=bounded_rows(chunks, source.block_bytes // _ROW_BYTES),
                row_groups=groups,
                columns=wanted,
                use_threads=False,
            ):
                batch.validate(full=True)  # texts that are not UTF-8 among others
                column = {name: batch.column(name) for name in wanted}
                yield screen(
                    ids(column[columns.user], "source.columns.user", file),
                    ids(column[columns.item], "source.columns.item", file),
                    shortened(column[columns.rating], LONGEST_NUMBER),
                    shortened(column[names[place.timestamp]], LONGEST_NUMBER)
                    if place.timestamp is not None
                    else None,
                    line_of_row=np.arange(row + 1, row + 1 + len(batch)),
                    source=source,
                    file=file,
                    lines=len(batch),
                )
                row += len(batch)


def require_honest_pages(
    stream: BinaryIO,
    table: Table,
    groups: Iterable[int],
    columns: Sequence[str],
    file: str,
    texts: pq.ParquetFile | None = None,
) -> list[Chunk]:
    """Return what the pages of some row groups state; refuse pages that expand further than the footer, by which the
    file was let in. With `texts`, the same file with its texts as dictionaries, these are read for their lengths."""
    found = []
    for number in groups:
        chunks = row_group_chunks(stream, table, number, columns, file)
        stated = max(0, table.file.metadata.row_group(number).total_byte_size)
        if sum(chunk.expanded for chunk in chunks) > stated + HARMLESS_BYTES:
            raise contradiction(file)
        found += chunks if texts is None else [_with_length(chunk, texts, number) for chunk in chunks]
    return found


def _with_length(chunk: Chunk, file: pq.ParquetFile, group: int) -> Chunk:
    """Return a column chunk with the length of the longest text in its dictionary instead of that of the page.

    The first row comes with all of the dictionary; where it does not, a text may be as long as the page.
    """
    place = file.schema_arrow.get_field_index(chunk.column)  # −1: a nested field
    if not chunk.listed or place < 0 or not _has_texts(file.schema_arrow.field(place).type):
        return chunk
    first = next(file.iter_batches(1, row_groups=[group], columns=[chunk.column], use_threads=False), None)
    texts = None if first is None else first.column(0).dictionary
    if texts is None or len(texts) < chunk.listed:
        return chunk
    return chunk._replace(longest=max(pc.max(pc.binary_length(texts)).as_py() or 0, chunk.average))


def _has_texts(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and (
        pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)
    )


def reopened(stream: BinaryIO, table: Table, wanted: Sequence[str]) -> pq.ParquetFile:
    """Return the file with the columns of texts read as dictionaries."""
    texts = text_columns(table, wanted)
    return pq.ParquetFile(stream, metadata=table.file.metadata, read_dictionary=texts, pre_buffer=False)


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
