"""MovieLens 20M and later: `ratings.csv` with the header userId,movieId,rating,timestamp; half stars."""

from collections.abc import Iterator
from datetime import date

from tasks.config import Source
from tasks.config.source import Columns
from tasks.formats import csv
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find

COLUMNS = Columns(user="userId", item="movieId", rating="rating", timestamp="timestamp")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """ratings.csv, in a directory, an archive or by itself; nothing in it is quoted, so it can be cut."""
    return cut(find(source, snapshot, ["ratings.csv"]), source.block_bytes)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of a piece."""
    known = {"columns": COLUMNS, "delimiter": ",", "encoding": "utf-8"}
    return csv.read(piece, source.model_copy(update=known), snapshot)
