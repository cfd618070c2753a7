"""A parquet file: source.columns names the columns; ids may be text or whole numbers."""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import Piece, RatingBlock, screen
from tasks.formats._files import find, opened, understood
from tasks.formats.csv import places

_ROW_BYTES = 64  # about what a rating takes in memory, ids included


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Neighbouring row groups, gathered up to about source.block_bytes."""
    found = find(source, snapshot)
    whole = Piece(found.files, found.container)
    for file, stream in opened(whole):
        with understood(file):
            groups = pq.ParquetFile(stream).metadata
        sizes = [groups.row_group(g).num_rows * _ROW_BYTES for g in range(groups.num_row_groups)]
        block = (np.cumsum(sizes) - sizes) // source.block_bytes
        starts = np.flatnonzero(np.diff(block, prepend=-1)).tolist()
        return [
            Piece(found.files, found.container, start, stop)
            for start, stop in zip(starts, [*starts[1:], len(sizes)], strict=True)
        ]
    return []


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of some row groups; a line is a row of the file."""
    for file, stream in opened(piece):
        with understood(file):
            table = pq.ParquetFile(stream)
            names = table.schema_arrow.names
            place = places(names, source, piece)
            wanted = [names[p] for p in place if p is not None]
            row = 0
            for batch in table.iter_batches(
                batch_size=max(1, source.block_bytes // _ROW_BYTES),
                row_groups=range(piece.start, piece.stop or 0),
                columns=wanted,
                use_threads=False,
            ):
                column = {name: batch.column(name) for name in wanted}
                yield screen(
                    _ids(column[source.columns.user], "user", file),
                    _ids(column[source.columns.item], "item", file),
                    _plain(column[source.columns.rating]),
                    _plain(column[names[place.timestamp]]) if place.timestamp is not None else None,
                    line_of_row=np.arange(row + 1, row + 1 + len(batch)),
                    source=source,
                    file=file,
                    lines=len(batch),
                )
                row += len(batch)


def _ids(column: pa.Array, key: str, file: str) -> pa.StringArray:
    column = _plain(column)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UsageError(
            f"the column of source.columns.{key} holds {kind}; ids must be text or whole numbers",
            where=file,
            remedy="export the ids as text",
        )
    return pc.cast(column, pa.string())


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
