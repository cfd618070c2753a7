"""Read MovieLens 100K: `u.data`, tab-separated user, item, rating, seconds; `u.user` and `u.item` beside it."""

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.config.formats import Format
from tasks.formats._attributes import read_user_table
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import cut, find
from tasks.formats._item_details import read_own_table
from tasks.formats._text import Layout, Places, rating_blocks

FORMAT = Format(
    scale=(1.0, 5.0),
    attributes=("gender", "age", "occupation"),
    user_table="u.user",
    attribute_edges={"age": (18.0, 36.0)},  # years, cut as in [RFPP] (the World Health Organization's youth)
    item_table="u.item",
)
LAYOUT = Layout(columns=4, separator="\t")
USER_COLUMNS = ("user", "age", "gender", "occupation", "zip code")
GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
ITEM_COLUMNS = ("item", "title", "released", "released on video", "address", *GENRES)


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Cut u.data, which may be in a directory, in an archive or by itself."""
    return cut(find(source, snapshot, ["u.data"]), source.block_bytes)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of a piece."""
    return rating_blocks(piece, source, LAYOUT, Places(user=0, item=1, rating=2, timestamp=3))


def attributes(source: Source, snapshot: date) -> pa.Table | None:
    """Read the user attributes from u.user."""
    layout = Layout(columns=len(USER_COLUMNS), separator="|", encoding="latin-1")
    return read_user_table(source, snapshot, FORMAT.user_table, layout, USER_COLUMNS)


def items(source: Source, snapshot: date) -> pa.Table | None:
    """Read titles and genres from u.item."""
    layout = Layout(columns=len(ITEM_COLUMNS), separator="|", encoding="latin-1")
    return read_own_table(source, snapshot, layout, ITEM_COLUMNS, _genres)


def _genres(table: pa.Table) -> pa.Array:
    """Return the names of the genres whose column holds a 1; `unknown` is no genre."""
    text = pa.repeat(pa.scalar("", pa.string()), table.num_rows)
    for name in GENRES[1:]:
        longer = pc.if_else(pc.equal(text, ""), name, pc.binary_join_element_wise(text, name, "|"))
        text = pc.if_else(pc.equal(table.column(name).combine_chunks(), "1"), longer, text)
    return text
