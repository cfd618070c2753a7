"""What is known about people beside their ratings: a table with a row per user, as text columns.

The movielens formats have a user table beside the ratings; any other source may name a csv or parquet table in
`source.attributes.path`. Values are put together as `source.attributes` says. No message quotes a row: it holds an id.
"""

from collections.abc import Sequence
from datetime import date
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import Piece
from tasks.formats._files import Found, find, opened, understood
from tasks.formats._text import Layout, first_row, records

BLOCK_BYTES = 8 * 2**20
MOST_CLASSES = 32
OTHER = "other"
_PARQUET = (".parquet", ".parq", ".pq")


def beside_ratings(
    source: Source, snapshot: date, file: str, layout: Layout, names: Sequence[str]
) -> pa.Table | None:
    """The user table of a data set, in the same directory or archive as its ratings; None where they stand alone."""
    found = beside(source, snapshot, file)
    return None if found is None else _text(found, layout, names, ("user", *source.attribute_names))


def beside(source: Source, snapshot: date, file: str) -> Found | None:
    """Where the user table of a data set is, if there is one."""
    try:
        found = find(source, snapshot, [file])
    except UsageError:  # no such file in there
        return None
    # A source that is a single file is "found" whatever the name asked for.
    called = found.files[0].rsplit("/", 1)[-1]
    return found if called in (file, f"{file}.gz") else None


def named_table(source: Source, snapshot: date) -> Found:
    """Where the table of `source.attributes.path` is."""
    moved = source.model_copy(update={"path": source.attributes.path})
    return find(moved, snapshot, ())


def read_named_table(source: Source, snapshot: date) -> pa.Table:
    """The table of `source.attributes.path`."""
    found, given = named_table(source, snapshot), source.attributes
    wanted = (given.user, *source.attribute_names)
    if found.files[0].lower().endswith(_PARQUET):
        table = _parquet(found, wanted)
    else:
        piece = Piece(found.files, found.container)
        header = first_row(piece, given.encoding, given.delimiter)
        layout = Layout(len(header), given.delimiter, quoted=True, encoding=given.encoding)
        table = _text(found, layout, header, wanted, header=True)
    return table.rename_columns(["user", *source.attribute_names])


def _text(
    found: Found, layout: Layout, names: Sequence[str], wanted: Sequence[str], *, header: bool = False
) -> pa.Table:
    piece = Piece(found.files, found.container)
    parts: list[list[pa.Array]] = [[] for _ in wanted]
    for file, stream in opened(piece):
        places = _places(names, wanted, file)
        for block in records(stream, piece, file, layout, BLOCK_BYTES):
            if block.misshapen:
                raise UsageError(
                    f"a line of the user table does not have {layout.columns} columns",
                    where=f"{file} line {block.misshapen[0].line}",
                    remedy="correct the line; check source.attributes.delimiter",
                )
            skip = int(header and len(block.line_of_row) > 0 and block.line_of_row[0] == 1)
            for part, place in zip(parts, places, strict=True):
                part.append(block.columns[place].slice(skip))
    return pa.table(
        {name: pa.chunked_array(part, pa.string()) for name, part in zip(wanted, parts, strict=True)}
    )


def _parquet(found: Found, wanted: Sequence[str]) -> pa.Table:
    tables = []
    for file, stream in opened(Piece(found.files, found.container)):
        with understood(file):
            table = pq.ParquetFile(stream)
            names = table.schema_arrow.names
            _places(names, wanted, file)
            read = table.read(columns=list(wanted))
            columns = [_as_text(read.column(name), name, file) for name in wanted]
            tables.append(pa.table(dict(zip(wanted, columns, strict=True))))
    return pa.concat_tables(tables)


def _as_text(column: pa.ChunkedArray, name: str, file: str) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        raise UsageError(
            f"the column '{name}' holds {column.type}, which is no text, number or truth value",
            where=file,
            remedy="export it as text",
        ) from None


def _places(names: Sequence[str], wanted: Sequence[str], file: str) -> list[int]:
    for name in wanted:
        if list(names).count(name) != 1:
            raise UsageError(
                f"the user table has {list(names).count(name) or 'no'} column called '{name}' "
                f"({len(names)} columns in all)",
                where=file,
                remedy="set source.attributes.user and source.attributes.columns to its columns' names",
            )
    return [list(names).index(name) for name in wanted]


def tidy(table: pa.Table, source: Source, where: str) -> pa.Table:
    """One row per user (the last in the table counts), values put together; null: not known."""
    users = table.column("user").combine_chunks()
    if not len(users):
        raise UsageError("the user table is empty", where=where, remedy="check that the export was complete")
    last = ~pd.Series(users.to_numpy(zero_copy_only=False)).duplicated(keep="last").to_numpy()
    known = last & pc.fill_null(pc.not_equal(users, ""), False).to_numpy(zero_copy_only=False)
    table = table.filter(pa.array(known))
    columns = {"user": table.column("user")}
    for name in table.column_names[1:]:
        columns[name] = _put_together(table.column(name).combine_chunks(), name, source, where)
    return pa.table(columns)


def _put_together(column: pa.Array, name: str, source: Source, where: str) -> pa.Array:
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    groups, edges = source.attributes.groups, source.attribute_edges
    if name in groups:
        text = _grouped(text, groups[name], name, where)
    elif name in edges:
        text = _cut(text, edges[name], name, where)
    classes = pc.count_distinct(text).as_py()
    if classes > MOST_CLASSES:
        raise UsageError(
            f"the attribute '{name}' has {classes:,} different values, more than {MOST_CLASSES}",
            where=where,
            remedy=f"put values together with source.attributes.groups.{name}, cut numbers with "
            f"source.attributes.edges.{name}, or leave it out of source.attributes.columns",
        )
    return text


def _grouped(text: pa.Array, groups: dict[str, tuple[str, ...]], name: str, where: str) -> pa.Array:
    values = pa.array([value for some in groups.values() for value in some], pa.string())
    called = pa.array([group for group, some in groups.items() for _ in some], pa.string())
    place = pc.index_in(text, value_set=values)
    if place.null_count == len(place):
        raise UsageError(
            f"no user has any of the values in source.attributes.groups.{name}",
            where=where,
            remedy="write the values as the table has them",
        )
    found = pc.fill_null(called.take(place), OTHER)
    return pc.if_else(pc.is_null(text), pa.scalar(None, pa.string()), found)


def _cut(text: pa.Array, edges: tuple[float, ...], name: str, where: str) -> pa.Array:
    numbers = pd.to_numeric(pd.Series(text.to_pylist(), dtype=object), errors="coerce").to_numpy(np.float64)
    strange = np.isnan(numbers) & ~text.is_null().to_numpy(zero_copy_only=False)
    if strange.any():
        raise UsageError(
            f"{int(strange.sum()):,} values of the attribute '{name}' are not numbers, so "
            f"source.attributes.edges.{name} cannot cut them",
            where=where,
            remedy="put values together with source.attributes.groups instead, or correct the table",
        )
    shown = [f"{edge:g}" for edge in edges]
    ranges = [
        f"below {shown[0]}",
        *(f"{a} to below {b}" for a, b in pairwise(shown)),
        f"from {shown[-1]}",
    ]
    place = np.searchsorted(np.array(edges), numbers, side="right")
    return pa.array(ranges, pa.string()).take(pa.array(place, mask=np.isnan(numbers)))
