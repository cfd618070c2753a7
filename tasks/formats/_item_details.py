"""Read titles and genres of items: a table with a row per item, published beside the ids of items.

The movielens formats have such a table beside the ratings; any other source may name a csv or parquet table in
`source.catalogue.path`. Several genres of an item are one text, separated by `|` as in MovieLens.
"""

from collections.abc import Callable, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.formats._files import SourceFiles
from tasks.formats._side_tables import Wording, find_beside, find_named, read_named, read_text
from tasks.formats._text import Layout

COLUMNS = ("item", "title", "genres")
NO_GENRES = "(no genres listed)"  # as MovieLens 20M and later write it
_UNKNOWN = pa.scalar(None, pa.string())
_WORDING = Wording(
    table="item table",
    keys="source.catalogue",
    id_key="source.catalogue.item",
    columns="set source.catalogue.item, title and genres to its columns' names",
    without="set source.catalogue.publish = false to publish no titles",
)


def find_table(source: Source, snapshot: date) -> SourceFiles | None:
    """Locate the table of items: the one that is named, or that of the data set; None where there is none."""
    if not source.catalogue.publish:
        return None
    if source.catalogue.path is not None:
        return find_named(_with_item_table_path(source), snapshot, _WORDING)
    own = source.declared.item_table
    return find_beside(source, snapshot, own) if own else None


def read_own_table(
    source: Source,
    snapshot: date,
    layout: Layout,
    names: Sequence[str],
    genres: Callable[[pa.Table], pa.Array] | None = None,
    *,
    header: bool = False,
) -> pa.Table | None:
    """Read the item table of a data set; `genres` makes the column of that name where the table has none."""
    found = find_table(source, snapshot)
    if found is None:
        return None
    wanted = COLUMNS if genres is None else names
    table = read_text(found, layout, names, wanted, _WORDING, header=header)
    return table if genres is None else table.append_column("genres", genres(table)).select(list(COLUMNS))


def read_named_table(source: Source, snapshot: date) -> pa.Table:
    """Read the table of `source.catalogue.path`, with those of its columns that are named."""
    given = source.catalogue
    columns = {"item": given.item, "title": given.title, "genres": given.genres}
    named = {name: column for name, column in columns.items() if column is not None}
    written = given.delimiter, given.encoding
    table = read_named(
        _with_item_table_path(source), snapshot, tuple(dict.fromkeys(named.values())), written, _WORDING
    )
    return pa.table({name: table.column(column) for name, column in named.items()})


def details_of(table: pa.Table, items: pa.Array) -> pa.Table | None:
    """Return title and genres of these items, in their order: the first row of an item counts, null is not known.

    A column in which nothing is known is left out; None where no column is left.
    """
    place = pc.index_in(items, value_set=table.column("item").combine_chunks())
    columns = {
        name: _cleaned(table.column(name).combine_chunks().take(place))
        for name in COLUMNS[1:]
        if name in table.column_names
    }
    known = {name: column for name, column in columns.items() if column.null_count < len(column)}
    return pa.table(known) if known else None


def _with_item_table_path(source: Source) -> Source:
    return source.model_copy(update={"path": source.catalogue.path})


def _cleaned(column: pa.Array) -> pa.Array:
    text = pc.utf8_trim_whitespace(column)
    nothing = pc.or_(pc.equal(text, ""), pc.equal(text, NO_GENRES))
    return pc.if_else(nothing, _UNKNOWN, text)
