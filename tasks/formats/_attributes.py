"""Read user attributes: a table with a row per user, as text columns.

The movielens formats have a user table beside the ratings; any other source may name a csv or parquet table in
`source.attributes.path`. `source.attributes` defines how values are grouped into classes. No message quotes a row,
because a row holds a user id.
"""

from collections.abc import Sequence
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import parse_numbers
from tasks.formats._files import SourceFiles
from tasks.formats._side_tables import Wording, find_beside, find_named, read_named, read_text
from tasks.formats._text import Layout

MOST_CLASSES = 32
OTHER = "other"
_UNKNOWN = pa.scalar(None, pa.string())
_WORDING = Wording(
    table="user table",
    keys="source.attributes",
    id_key="source.attributes.user",
    columns="set source.attributes.user and source.attributes.columns to its columns' names",
    without="set source.attributes.columns = [] to use no attributes",
)


def read_user_table(
    source: Source, snapshot: date, file: str, layout: Layout, names: Sequence[str]
) -> pa.Table | None:
    """Read the user table of a data set from the directory or archive of its ratings; None where there is no table."""
    found = find_beside(source, snapshot, file)
    return (
        None
        if found is None
        else read_text(found, layout, names, ("user", *source.attribute_names), _WORDING)
    )


def with_user_table_path(source: Source) -> Source:
    """Return the source with its path replaced by that of its user table, so that the same code finds the table."""
    return source.model_copy(update={"path": source.attributes.path})


def named_table(source: Source, snapshot: date) -> SourceFiles:
    """Locate the table of `source.attributes.path`."""
    return find_named(with_user_table_path(source), snapshot, _WORDING)


def read_named_table(source: Source, snapshot: date) -> pa.Table:
    """Read the table of `source.attributes.path`."""
    given = source.attributes
    wanted = (given.user, *source.attribute_names)
    table = read_named(
        with_user_table_path(source), snapshot, wanted, (given.delimiter, given.encoding), _WORDING
    )
    return table.rename_columns(["user", *source.attribute_names])


# --- grouping values into classes ---------------------------------------------------------------------------


def one_row_per_user(table: pa.Table, source: Source, where: str) -> pa.Table:
    """Return one row per user (the last in the table counts), values grouped into classes; null: not known."""
    users = table.column("user").combine_chunks().dictionary_encode()
    there = np.flatnonzero(users.is_valid().to_numpy(zero_copy_only=False))
    last = np.full(len(users.dictionary), -1, np.int64)
    np.maximum.at(last, users.indices.take(pa.array(there)).to_numpy(), there)
    named = pc.not_equal(users.dictionary, "").to_numpy(zero_copy_only=False)
    if not named.any():
        raise UsageError(
            "the user table has no users", where=where, remedy="check that the export was complete"
        )
    table = table.take(pa.array(np.sort(last[named])))
    columns = {"user": table.column("user")}
    for name in table.column_names[1:]:
        columns[name] = _put_together(table.column(name).combine_chunks(), name, source, where)
    return pa.table(columns)


def _put_together(column: pa.Array, name: str, source: Source, where: str) -> pa.Array:
    """Return the class of every user; each different value is converted once."""
    coded = column.dictionary_encode()
    values = pc.utf8_trim_whitespace(coded.dictionary)
    values = pc.if_else(pc.equal(values, ""), _UNKNOWN, values)
    groups, edges = source.attributes.groups, source.attribute_edges
    if name in groups:
        values = _grouped(values, groups[name], name, where)
    elif name in edges:
        values = _cut(values, edges[name], name, where)
    classes = pc.count_distinct(values).as_py()
    if classes > MOST_CLASSES:
        raise UsageError(
            f"the attribute '{name}' has {classes:,} different values, more than {MOST_CLASSES}",
            where=where,
            remedy=f"group values with source.attributes.groups.{name}, cut numbers with "
            f"source.attributes.edges.{name}, or leave it out of source.attributes.columns",
        )
    return values.take(coded.indices)


def _grouped(values: pa.Array, groups: dict[str, tuple[str, ...]], name: str, where: str) -> pa.Array:
    members = pa.array([value for some in groups.values() for value in some], pa.string())
    called = pa.array([group for group, some in groups.items() for _ in some], pa.string())
    place = pc.index_in(values, value_set=members)
    if place.null_count == len(place):
        raise UsageError(
            f"no user has any of the values in source.attributes.groups.{name}",
            where=where,
            remedy="write the values as the table has them",
        )
    found = pc.fill_null(called.take(place), OTHER)
    return pc.if_else(pc.is_null(values), _UNKNOWN, found)


def _cut(values: pa.Array, edges: tuple[float, ...], name: str, where: str) -> pa.Array:
    number = parse_numbers(values)
    unknown = values.is_null().to_numpy(zero_copy_only=False)
    not_numeric = ~np.isfinite(number) & ~unknown
    if not_numeric.any():
        raise UsageError(
            f"{int(not_numeric.sum()):,} different values of the attribute '{name}' are not numbers, so "
            f"source.attributes.edges.{name} cannot cut them",
            where=where,
            remedy="group values with source.attributes.groups instead, or correct the table",
        )
    shown = [str(int(edge)) if edge.is_integer() else str(edge) for edge in edges]
    ranges = [
        f"below {shown[0]}",
        *(f"{a} to below {b}" for a, b in pairwise(shown)),
        f"from {shown[-1]}",
    ]
    place = np.searchsorted(np.array(edges), number, side="right")
    return pa.array(ranges, pa.string()).take(pa.array(place, mask=unknown))
