"""MovieLens 100K: `u.data`, tab-separated user, item, rating, seconds; `u.user` beside it."""

from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from tasks.config import Source
from tasks.formats._attributes import beside_ratings
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find
from tasks.formats._text import Layout, Places, rating_blocks

LAYOUT = Layout(columns=4, separator="\t")
USER_TABLE = "u.user"
USER_COLUMNS = ("user", "age", "gender", "occupation", "zip code")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """u.data, in a directory, an archive or by itself."""
    return cut(find(source, snapshot, ["u.data"]), source.block_bytes)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of a piece."""
    return rating_blocks(piece, source, LAYOUT, Places(user=0, item=1, rating=2, timestamp=3))


def attributes(source: Source, snapshot: date) -> pa.Table | None:
    """What u.user says about people."""
    layout = Layout(columns=len(USER_COLUMNS), separator="|", encoding="latin-1")
    return beside_ratings(source, snapshot, USER_TABLE, layout, USER_COLUMNS)
