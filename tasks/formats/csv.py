"""Read delimited text with a header, as source.columns, source.delimiter and source.encoding describe it.

Fields may be quoted (RFC 4180), and a quoted field may hold delimiters, quotation marks and line breaks.
"""

import re
from collections.abc import Iterator
from datetime import date

from tasks.config import Source
from tasks.config.formats import Format
from tasks.errors import UsageError, printable
from tasks.formats._blocks import Piece, RatingBlock
from tasks.formats._files import SourceFiles, cut, find, open_files, readable_errors
from tasks.formats._text import ARROW_BYTES, Layout, Places, first_row, rating_blocks

FORMAT = Format()
MOST_SHOWN, LONGEST_SHOWN = 30, 40  # columns of a header in a message, and characters of a name


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Cut the file by byte range only if no field can be quoted, because a cut could fall inside a quoted field."""
    found = find(source, snapshot)
    if found.cuttable and found.local and not _has_quotes(found):
        return cut(found, source.block_bytes, encoding=source.encoding)
    return [found.piece()]


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of a piece."""
    header = first_row(piece, source.encoding, source.delimiter)
    layout = Layout(len(header), source.delimiter, quoted=True, encoding=source.encoding)
    where = f"{piece.files[0].rsplit('/', 1)[-1]} line 1"
    place = places(header, source, where, "; check source.delimiter too")
    return rating_blocks(piece, source, layout, place, header=True)


def places(header: list[str], source: Source, where: str, hint: str = "") -> Places:
    """Return the positions of the columns. Messages quote the header only where it cannot be a row of data."""
    columns = source.columns
    wanted = {"user": columns.user, "item": columns.item, "rating": columns.rating}
    if columns.timestamp and (columns.timestamp in header or "timestamp" in columns.model_fields_set):
        wanted["timestamp"] = columns.timestamp
    for key, name in wanted.items():
        if header.count(name) != 1:
            other = ", or leave it out: times are optional" if key == "timestamp" else ""
            raise UsageError(
                f"there {'are' if name in header else 'is'} {header.count(name) or 'no'} "
                f"column{'s' * (name in header)} called '{name}' ({_columns_in_words(header)})",
                where=where,
                remedy=f"set source.columns.{key} to the right name{other}{hint}",
            )
    return Places(*(header.index(wanted[k]) if k in wanted else None for k in Places._fields))  # type: ignore[arg-type]


def _columns_in_words(header: list[str]) -> str:
    """Return the columns there are. A row of data has a rating, so what holds no number is no row of data: only then
    the names are shown, because the first column of a row may be a user id."""
    parts = [part for name in header for part in re.split(r"[;,|:\t]+", name)]
    if not header or len(header) > MOST_SHOWN or any(map(_may_be_data, parts)):
        return f"{len(header)} columns in all"
    return f"the columns are: {', '.join(map(printable, header))}"


def _may_be_data(text: str) -> bool:
    return not text.strip() or len(text) > LONGEST_SHOWN or any(sign.isdigit() for sign in text)


def _has_quotes(found: SourceFiles) -> bool:
    for file, stream in open_files(found.piece()):
        with readable_errors(file):
            while chunk := stream.read(ARROW_BYTES):
                if b'"' in chunk:
                    return True
    return False
