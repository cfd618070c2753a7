"""MovieLens 1M (and 10M): `ratings.dat`, user::item::rating::seconds in Latin-1."""

from collections.abc import Iterator
from datetime import date

from tasks.config import Source
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find
from tasks.formats._text import Layout, Places, rating_blocks

LAYOUT = Layout(columns=4, separator="::", encoding="latin-1")


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """ratings.dat, in a directory, an archive or by itself."""
    return cut(find(source, snapshot, ["ratings.dat"]), source.block_bytes, encoding=LAYOUT.encoding)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of a piece."""
    return rating_blocks(piece, source, LAYOUT, Places(user=0, item=1, rating=2, timestamp=3))
