"""Jester: a dense matrix, a line per user: how many jokes were rated, then 100 ratings of −10..10; 99 = none.

The file has no ids: users are called by their line, items by their column, both from 1.
"""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.formats._blocks import Piece, RatingBlock, numbers, screen
from tasks.formats._files import find, opened
from tasks.formats._text import Layout, records, wrong_width

ITEMS = 100
NOT_RATED = 99.0
LAYOUT = Layout(columns=1 + ITEMS)


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """The file as one piece: a user's name is the line's number in the whole file."""
    found = find(source, snapshot, ["jester-data*.csv", "jester*.csv"])
    return [Piece(found.files, found.container)]


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of the matrix; a rating that is no number is set aside by itself."""
    item_names = pa.array([str(item) for item in range(1, ITEMS + 1)])
    for file, stream in opened(piece):
        for block in records(stream, piece, file, LAYOUT, source.block_bytes):
            cells = np.stack([numbers(column) for column in block.columns[1:]], axis=1)
            row, column = np.nonzero(cells != NOT_RATED)
            line_of_rating = block.line_of_row[row]
            yield screen(
                pc.cast(pa.array(line_of_rating), pa.string()),
                item_names.take(pa.array(column)),
                pa.array(cells[row, column]),
                None,
                line_of_row=line_of_rating,
                source=source,
                file=file,
                lines=block.lines,
                misshapen=[wrong_width(m, LAYOUT, file) for m in block.misshapen],
            )
