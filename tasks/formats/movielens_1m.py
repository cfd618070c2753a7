"""Read MovieLens 1M, 10M: `ratings.dat`, user::item::rating::seconds in Latin-1; `movies.dat`; `users.dat` in 1M."""

from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from tasks.config import Source
from tasks.config.formats import Format
from tasks.formats._attributes import read_user_table
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find
from tasks.formats._item_details import COLUMNS, read_own_table
from tasks.formats._text import Layout, Places, rating_blocks

FORMAT = Format(
    scale=(1.0, 5.0),
    attributes=("gender", "age", "occupation"),
    user_table="users.dat",
    item_table="movies.dat",
)
LAYOUT = Layout(columns=4, separator="::", encoding="latin-1")
USER_COLUMNS = ("user", "gender", "age", "occupation", "zip code")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Cut ratings.dat, which may be in a directory, in an archive or by itself."""
    return cut(find(source, snapshot, ["ratings.dat"]), source.block_bytes, encoding=LAYOUT.encoding)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of a piece."""
    return rating_blocks(piece, source, LAYOUT, Places(user=0, item=1, rating=2, timestamp=3))


def attributes(source: Source, snapshot: date) -> pa.Table | None:
    """Read the user attributes from users.dat."""
    layout = Layout(columns=len(USER_COLUMNS), separator="::", encoding=LAYOUT.encoding)
    return read_user_table(source, snapshot, FORMAT.user_table, layout, USER_COLUMNS)


def items(source: Source, snapshot: date) -> pa.Table | None:
    """Read titles and genres from movies.dat."""
    layout = Layout(columns=len(COLUMNS), separator="::", encoding=LAYOUT.encoding)
    return read_own_table(source, snapshot, layout, COLUMNS)
