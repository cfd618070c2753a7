"""Read MovieLens 20M and later: `ratings.csv` (userId,movieId,rating,timestamp; half stars), `movies.csv` beside it."""

from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from tasks.config import Source
from tasks.config.formats import Format
from tasks.config.source import Columns
from tasks.formats import csv
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find
from tasks.formats._item_details import read_own_table
from tasks.formats._text import Layout

FORMAT = Format(scale=(0.5, 5.0), item_table="movies.csv")
COLUMNS = Columns(user="userId", item="movieId", rating="rating", timestamp="timestamp")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Cut ratings.csv, which may be in a directory, in an archive or by itself; it has no quotes, so it can be cut."""
    return cut(find(source, snapshot, ["ratings.csv"]), source.block_bytes)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of a piece."""
    known = {"columns": COLUMNS, "delimiter": ",", "encoding": "utf-8"}
    return csv.read(piece, source.model_copy(update=known), snapshot)


def items(source: Source, snapshot: date) -> pa.Table | None:
    """Read titles and genres from movies.csv, whose columns are movieId, title and genres."""
    layout = Layout(columns=3, separator=",", quoted=True)
    return read_own_table(source, snapshot, layout, ("item", "title", "genres"), header=True)
