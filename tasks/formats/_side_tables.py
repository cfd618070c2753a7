"""Read tables beside the ratings: of users (`_attributes`) and of items (`_item_details`), as text columns.

A data set has its table in the directory or archive of its ratings; any other source may name a csv or parquet table.
No message quotes a row, because a row may hold a user id.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatch

import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import LONGEST_ID, shortened
from tasks.formats._files import NoMatchingFile, SourceFiles, find, open_files, readable_errors
from tasks.formats._pages import open_table
from tasks.formats._text import Layout, first_row, read_records
from tasks.formats.parquet import NAMES as PARQUET
from tasks.formats.parquet import ids, reopened, require_bounded_table, require_honest_pages

BLOCK_BYTES = 8 * 2**20
_UNKNOWN = pa.scalar(None, pa.string())


@dataclass(frozen=True)
class Wording:
    """Hold what messages call a table: its name, its keys in the release file, and how to name or leave out columns."""

    table: str
    keys: str
    id_key: str
    columns: str
    without: str


def find_beside(source: Source, snapshot: date, file: str) -> SourceFiles | None:
    """Locate a data set's table in the directory or archive of its ratings; None where there is no table."""
    try:
        found = find(source, snapshot, [file])
    except NoMatchingFile:
        return None
    # A source that is a single file is "found" whichever name was requested.
    called = found.files[0].rsplit("/", 1)[-1]
    return found if called in (file, f"{file}.gz") else None


def find_named(source: Source, snapshot: date, wording: Wording) -> SourceFiles:
    """Locate the table that `source.path` is: a file, the only one in an archive, or the parts of a parquet."""
    with _own_keys(wording):
        try:
            return find(source, snapshot, PARQUET, several=True)
        except NoMatchingFile:  # an archive may hold a csv
            return find(source, snapshot)


def read_named(
    source: Source, snapshot: date, wanted: Sequence[str], written: tuple[str, str], wording: Wording
) -> pa.Table:
    """Read columns of the table that `source.path` is; `written` are delimiter and encoding, where it is text."""
    found = find_named(source, snapshot, wording)
    with _own_keys(wording):
        if any(fnmatch(found.files[0].lower().removesuffix(".gz"), name) for name in PARQUET):
            return _parquet(found, wanted, source, wording)
        delimiter, encoding = written
        header = first_row(found.piece(), encoding, delimiter)
        layout = Layout(len(header), delimiter, quoted=True, encoding=encoding)
        return read_text(found, layout, header, wanted, wording, header=True)


def read_text(
    found: SourceFiles,
    layout: Layout,
    names: Sequence[str],
    wanted: Sequence[str],
    wording: Wording,
    *,
    header: bool = False,
) -> pa.Table:
    """Read columns of delimited text whose columns have these names, in every file."""
    piece = found.piece()
    parts: list[list[pa.Array]] = [[] for _ in wanted]
    for file, stream in open_files(piece):
        places = _places(names, wanted, file, wording)
        for block in read_records(stream, piece, file, layout, BLOCK_BYTES):
            if block.misshapen:
                raise UsageError(
                    f"a line of the {wording.table} does not have {layout.columns} columns",
                    where=f"{file} line {block.misshapen[0].line}",
                    remedy="correct the line; "
                    + (f"check {wording.keys}.delimiter" if header else f"or {wording.without}"),
                )
            skip = int(header and len(block.line_of_row) > 0 and block.line_of_row[0] == 1)
            for part, place in zip(parts, places, strict=True):
                part.append(block.columns[place].slice(skip))
    return pa.table(
        {name: pa.chunked_array(part, pa.string()) for name, part in zip(wanted, parts, strict=True)}
    )


@contextlib.contextmanager
def _own_keys(wording: Wording) -> Iterator[None]:
    """Rewrite remedies: readers name the keys of the ratings, the table's keys are in a table of their own."""
    try:
        yield
    except UsageError as error:
        remedy = error.remedy.replace("source.format", f"{wording.keys}.path")
        remedy = re.sub(r"source\.(path|delimiter|encoding)", rf"{wording.keys}.\1", remedy)
        raise type(error)(error.what, where=error.where, remedy=remedy) from None


def _parquet(found: SourceFiles, wanted: Sequence[str], source: Source, wording: Wording) -> pa.Table:
    tables = []
    for size, (file, stream) in zip(found.sizes, open_files(found.piece()), strict=True):
        with readable_errors(file):
            footer = open_table(stream, file)
            require_bounded_table(footer.file.metadata, size, source, file)
            _places(footer.file.schema_arrow.names, wanted, file, wording)
            require_honest_pages(stream, footer, range(len(footer.groups)), wanted, file)
            read = reopened(stream, footer, wanted).read(columns=list(wanted), use_threads=False)
            read.validate(full=True)
            first, *others = (read.column(name).combine_chunks() for name in wanted)
            columns = [shortened(ids(first, wording.id_key, file), LONGEST_ID).cast(pa.string())]
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


def _places(names: Sequence[str], wanted: Sequence[str], file: str, wording: Wording) -> list[int]:
    for name in wanted:
        if (count := list(names).count(name)) != 1:
            raise UsageError(
                f"the {wording.table} has {count or 'no'} column{'s' * (count > 1)} called '{name}' "
                f"({len(names)} columns in all)",
                where=file,
                remedy=wording.columns,
            )
    return [list(names).index(name) for name in wanted]
