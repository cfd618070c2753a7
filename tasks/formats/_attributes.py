"""Read user attributes: a table with a row per user, as text columns.

The movielens formats have a user table beside the ratings; any other source may name a csv or parquet table in
`source.attributes.path`. `source.attributes` defines how values are grouped into classes. No message quotes a row,
because a row holds a user id.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import date
from fnmatch import fnmatch
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import LONGEST_ID, parse_numbers, shortened
from tasks.formats._files import NoMatchingFile, SourceFiles, find, open_files, readable_errors
from tasks.formats._pages import open_table
from tasks.formats._text import Layout, first_row, read_records
from tasks.formats.parquet import NAMES as PARQUET
from tasks.formats.parquet import ids, reopened, require_bounded_table, require_honest_pages

BLOCK_BYTES = 8 * 2**20
MOST_CLASSES = 32
OTHER = "other"
_UNKNOWN = pa.scalar(None, pa.string())


# --- a data set's own table ---------------------------------------------------------------------------------


def read_user_table(
    source: Source, snapshot: date, file: str, layout: Layout, names: Sequence[str]
) -> pa.Table | None:
    """Read the user table of a data set from the directory or archive of its ratings; None where there is no table."""
    found = find_user_table(source, snapshot, file)
    return None if found is None else _text(found, layout, names, ("user", *source.attribute_names))


def find_user_table(source: Source, snapshot: date, file: str) -> SourceFiles | None:
    """Locate the user table of a data set in the directory or archive of its ratings; None where there is no table."""
    try:
        found = find(source, snapshot, [file])
    except NoMatchingFile:
        return None
    # A source that is a single file is "found" whichever name was requested.
    called = found.files[0].rsplit("/", 1)[-1]
    return found if called in (file, f"{file}.gz") else None


# --- a table that is named ----------------------------------------------------------------------------------


def with_user_table_path(source: Source) -> Source:
    """Return the source with its path replaced by that of its user table, so that the same code finds the table."""
    return source.model_copy(update={"path": source.attributes.path})


def named_table(source: Source, snapshot: date) -> SourceFiles:
    """Locate the table of `source.attributes.path`: a file, the only one in an archive, or the parts of a parquet."""
    with _own_keys():
        try:
            return find(with_user_table_path(source), snapshot, PARQUET, several=True)
        except NoMatchingFile:  # an archive may hold a csv
            return find(with_user_table_path(source), snapshot)


def read_named_table(source: Source, snapshot: date) -> pa.Table:
    """Read the table of `source.attributes.path`."""
    found, given = named_table(source, snapshot), source.attributes
    wanted = (given.user, *source.attribute_names)
    with _own_keys():
        if any(fnmatch(found.files[0].lower().removesuffix(".gz"), name) for name in PARQUET):
            table = _parquet(found, wanted, source)
        else:
            header = first_row(found.piece(), given.encoding, given.delimiter)
            layout = Layout(len(header), given.delimiter, quoted=True, encoding=given.encoding)
            table = _text(found, layout, header, wanted, header=True)
    return table.rename_columns(["user", *source.attribute_names])


@contextlib.contextmanager
def _own_keys() -> Iterator[None]:
    """Rewrite remedies: readers name the keys of the ratings, the table's keys are below source.attributes."""
    try:
        yield
    except UsageError as error:
        remedy = error.remedy.replace("source.format", "source.attributes.path")
        remedy = re.sub(r"source\.(path|delimiter|encoding)", r"source.attributes.\1", remedy)
        raise type(error)(error.what, where=error.where, remedy=remedy) from None


# --- reading ------------------------------------------------------------------------------------------------


def _text(
    found: SourceFiles, layout: Layout, names: Sequence[str], wanted: Sequence[str], *, header: bool = False
) -> pa.Table:
    piece = found.piece()
    parts: list[list[pa.Array]] = [[] for _ in wanted]
    for file, stream in open_files(piece):
        places = _places(names, wanted, file)
        for block in read_records(stream, piece, file, layout, BLOCK_BYTES):
            if block.misshapen:
                raise UsageError(
                    f"a line of the user table does not have {layout.columns} columns",
                    where=f"{file} line {block.misshapen[0].line}",
                    remedy="correct the line; "
                    + (
                        "check source.attributes.delimiter"
                        if header
                        else "or set source.attributes.columns = [] to use no attributes"
                    ),
                )
            skip = int(header and len(block.line_of_row) > 0 and block.line_of_row[0] == 1)
            for part, place in zip(parts, places, strict=True):
                part.append(block.columns[place].slice(skip))
    return pa.table(
        {name: pa.chunked_array(part, pa.string()) for name, part in zip(wanted, parts, strict=True)}
    )


def _parquet(found: SourceFiles, wanted: Sequence[str], source: Source) -> pa.Table:
    tables = []
    for size, (file, stream) in zip(found.sizes, open_files(found.piece()), strict=True):
        with readable_errors(file):
            footer = open_table(stream, file)
            require_bounded_table(footer.file.metadata, size, source, file)
            _places(footer.file.schema_arrow.names, wanted, file)
            require_honest_pages(stream, footer, range(len(footer.groups)), wanted, file)
            table = reopened(stream, footer, wanted)
            read = table.read(columns=list(wanted), use_threads=False)
            read.validate(full=True)
            users, *others = (read.column(name).combine_chunks() for name in wanted)
            columns = [shortened(ids(users, "source.attributes.user", file), LONGEST_ID)]
            columns += [_as_text(column, name, file) for name, column in zip(wanted[1:], others, strict=True)]
            tables.append(pa.table(dict(zip(wanted, columns, strict=True))))
    return pa.concat_tables(tables)


def _as_text(column: pa.Array, name: str, file: str) -> pa.Array:
    column = shortened(column, LONGEST_ID)
    try:
        text = pc.cast(column, pa.string())
    except pa.ArrowException:
        raise UsageError(
            f"the column '{name}' holds {column.type}; only text, numbers and truth values are supported",
            where=file,
            remedy="export it as text",
        ) from None
    return pc.if_else(pc.is_nan(column), _UNKNOWN, text) if pa.types.is_floating(column.type) else text


def _places(names: Sequence[str], wanted: Sequence[str], file: str) -> list[int]:
    for name in wanted:
        if (count := list(names).count(name)) != 1:
            raise UsageError(
                f"the user table has {count or 'no'} column{'s' * (count > 1)} called '{name}' "
                f"({len(names)} columns in all)",
                where=file,
                remedy="set source.attributes.user and source.attributes.columns to its columns' names",
            )
    return [list(names).index(name) for name in wanted]


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
