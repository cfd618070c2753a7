"""MovieLens 1M (and 10M): `ratings.dat`, user::item::rating::seconds in Latin-1; `users.dat` beside it in 1M."""

from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from tasks.config import Source
from tasks.formats._attributes import beside_ratings
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find
from tasks.formats._text import Layout, Places, rating_blocks

LAYOUT = Layout(columns=4, separator="::", encoding="latin-1")
USER_TABLE = "users.dat"
USER_COLUMNS = ("user", "gender", "age", "occupation", "zip code")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """ratings.dat, in a directory, an archive or by itself."""
    return cut(find(source, snapshot, ["ratings.dat"]), source.block_bytes, encoding=LAYOUT.encoding)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of a piece."""
    return rating_blocks(piece, source, LAYOUT, Places(user=0, item=1, rating=2, timestamp=3))


def attributes(source: Source, snapshot: date) -> pa.Table | None:
    """What users.dat says about people."""
    layout = Layout(columns=len(USER_COLUMNS), separator="::", encoding=LAYOUT.encoding)
    return beside_ratings(source, snapshot, USER_TABLE, layout, USER_COLUMNS)
