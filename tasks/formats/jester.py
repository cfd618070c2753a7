"""Read Jester: a dense matrix with a line per user: the number of rated jokes, then 100 ratings of −10..10; 99 =
none.

The file has no ids: users are named by their line, items by their column, both from 1. So no message names a line.
"""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.config.formats import Format
from tasks.formats._blocks import Piece, RatingBlock, parse_numbers, screen
from tasks.formats._files import find, open_files
from tasks.formats._text import Layout, read_records, wrong_width_row

FORMAT = Format(scale=(-10.0, 10.0))
ITEMS = 100
NOT_RATED = 99.0
LAYOUT = Layout(columns=1 + ITEMS, line_is_user=True)


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Return the file as one piece, because a user's name is the line's number in the whole file."""
    found = find(source, snapshot, ["jester-data*.csv", "jester*.csv"])
    return [found.piece()]


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of the matrix; a rating that is not a number is set aside by itself."""
    item_names = pa.array([str(item) for item in range(1, ITEMS + 1)])
    for file, stream in open_files(piece):
        for block in read_records(stream, piece, file, LAYOUT, source.block_bytes):
            cells = np.stack([parse_numbers(column) for column in block.columns[1:]], axis=1)
            row, column = np.nonzero(cells != NOT_RATED)
            yield screen(
                pc.cast(pa.array(block.line_of_row[row]), pa.string()),
                item_names.take(pa.array(column)),
                pa.array(cells[row, column]),
                None,
                line_of_row=None,
                column_of_row=column + 2,  # of the file, whose first column is the number of rated jokes
                source=source,
                file=file,
                lines=block.lines,
                misshapen=[wrong_width_row(m, LAYOUT, file) for m in block.misshapen],
            )
