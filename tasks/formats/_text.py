"""Read delimited text of any size into records with their true line numbers, in bounded memory.

Arrow's streaming reader does the parsing; this module feeds it whole lines in UTF-8, from any byte range of a file,
and computes the line of each record and each misshapen row.
"""

import codecs
import csv
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats._blocks import BadRow, Piece, RatingBlock, screen
from tasks.formats._files import open_files, readable_errors

# Arrow reads up to 32 of its blocks ahead, so they are small whatever the value of source.block_bytes.
ARROW_BYTES = 2**20
LINE_LIMIT = 2**20
MISSHAPEN_LIMIT = 1_000_000
LONGEST_KEPT = 256  # characters of a misshapen row; a heading of Netflix' has ten
MOST_COLUMNS = 10_000


@dataclass(frozen=True)
class Layout:
    """Describe how a line is split into columns; `separator` may be longer than one character if nothing is quoted.

    With `line_is_user` the number of a line is a user id, so that messages do not name it.
    """

    columns: int
    separator: str = ","
    quoted: bool = False
    encoding: str = "utf-8"
    line_is_user: bool = False

    def place(self, file: str, line: str) -> str:
        """Return the place in a file that a message names."""
        return file if self.line_is_user else f"{file} {line}"


class Places(NamedTuple):
    """Name the column of each field."""

    user: int
    item: int
    rating: int
    timestamp: int | None


class Misshapen(NamedTuple):
    """Represent a line whose number of columns differs from the layout; of its text the beginning is kept."""

    line: int
    text: str


class _Aside(NamedTuple):
    """Hold what is needed of a misshapen row: a million of them may wait, of a megabyte each."""

    number: int
    text: str
    breaks: int


class Records(NamedTuple):
    """Hold rows of a block as text columns; `line_of_row` counts from the beginning of the piece."""

    columns: list[pa.StringArray]
    line_of_row: np.ndarray
    misshapen: list[Misshapen]
    lines: int


def rating_blocks(
    piece: Piece, source: Source, layout: Layout, places: Places, *, header: bool = False
) -> Iterator[RatingBlock]:
    """Yield the ratings of a piece whose lines are user, item, rating and timestamp in some order."""
    for file, stream in open_files(piece):
        for block in read_records(stream, piece, file, layout, source.block_bytes):
            columns, line_of_row = block.columns, block.line_of_row
            if header and piece.start == 0 and len(line_of_row) and line_of_row[0] == 1:
                columns, line_of_row = [c.slice(1) for c in columns], line_of_row[1:]
            yield screen(
                columns[places.user],
                columns[places.item],
                columns[places.rating],
                None if places.timestamp is None else columns[places.timestamp],
                line_of_row=line_of_row,
                source=source,
                file=file,
                lines=block.lines,
                misshapen=[wrong_width_row(m, layout, file) for m in block.misshapen],
            )


def wrong_width_row(row: Misshapen, layout: Layout, file: str) -> BadRow:
    """Return a misshapen line as a bad row."""
    return BadRow(
        None if layout.line_is_user else row.line, f"the line does not have {layout.columns} columns", file
    )


def read_records(
    stream: BinaryIO, piece: Piece, file: str, layout: Layout, block_bytes: int
) -> Iterator[Records]:
    """Yield the records of a piece in blocks of about `block_bytes`; blank lines are not records."""
    text = _Utf8(stream, piece, file, layout)
    if not text.peek():
        return
    misshapen: list[_Aside] = []

    def set_aside(row: Any) -> str:
        misshapen.append(_Aside(row.number, row.text[:LONGEST_KEPT], row.text.count("\n")))
        return "skip" if len(misshapen) <= MISSHAPEN_LIMIT else "error"

    names = [str(column) for column in range(layout.columns)]
    count = _LineCounter(layout)
    with readable_errors(file):
        try:
            reader = arrow_csv.open_csv(
                pa.PythonFile(text, mode="r"),
                read_options=arrow_csv.ReadOptions(
                    block_size=ARROW_BYTES, use_threads=False, column_names=names
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=_one_character(layout),
                    quote_char='"' if layout.quoted else False,
                    newlines_in_values=layout.quoted,
                    ignore_empty_lines=False,  # they count as lines
                    invalid_row_handler=set_aside,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=False,
                    check_utf8=False,  # done on the way in, where the line is known
                ),
            )
            batches: list[pa.RecordBatch] = []
            for batch in reader:
                batches.append(batch)
                if sum(b.nbytes for b in batches) >= block_bytes:
                    yield count.numbered(batches, misshapen)
                    batches = []
            if batches or misshapen:
                yield count.numbered(batches, misshapen, last=True)
        except pa.ArrowInvalid as error:
            if len(misshapen) > MISSHAPEN_LIMIT:
                raise UsageError(
                    f"more than {MISSHAPEN_LIMIT:,} lines do not have {layout.columns} columns",
                    where=file,
                    remedy="check source.format and source.delimiter",
                ) from None
            if "straddl" not in str(error):
                raise
            raise UsageError(
                f"a row is longer than {ARROW_BYTES // 2**20} MiB, or a quotation mark is never closed",
                where=layout.place(file, f"after line {count.lines + text.lines_before()}"),
                remedy="correct the file",
            ) from None


def first_row(piece: Piece, layout_encoding: str, separator: str) -> list[str]:
    """Return the header's column names, from the beginning of the file, whichever range the piece covers."""
    for file, stream in open_files(Piece(piece.files[:1], piece.container, budgets=piece.budgets[:1])):
        text = (
            _Utf8(stream, Piece(), file, Layout(1, separator, encoding=layout_encoding))
            .peek()
            .decode(errors="replace")
        )
        lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
        try:
            names = next(csv.reader(lines, delimiter=separator), [])
            if len(names) > MOST_COLUMNS:
                raise UsageError(
                    f"the header has {len(names):,} columns, more than {MOST_COLUMNS:,}",
                    where=f"{file} line 1",
                    remedy="check source.format and source.delimiter; a line is a rating, not a person",
                )
            return names
        except csv.Error:  # its message may quote the row
            raise UsageError(
                "the header cannot be read: a name is very long, or a quotation mark is never closed",
                where=f"{file} line 1",
                remedy="correct the file",
            ) from None
    return []


class _LineCounter:
    """Compute the line of every record. Arrow counts rows; a quoted field may span several lines."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._good = 0  # well-shaped rows so far
        self._bad = 0  # misshapen rows so far
        self._spill = 0  # line breaks inside quoted fields so far

    @property
    def lines(self) -> int:
        """Return the number of lines counted so far."""
        return self._good + self._bad + self._spill

    def numbered(self, batches: list[pa.RecordBatch], misshapen: list[_Aside], last: bool = False) -> Records:
        """Build a block from Arrow's batches and the misshapen rows among them, which are removed from the list.

        Arrow may have met misshapen rows of later batches already: they stay for the next block.
        """
        before = self.lines
        nothing = pa.array([], pa.string())
        columns = [pa.concat_arrays([nothing, *(b[c] for b in batches)]) for c in range(self._layout.columns)]
        size = len(columns[0])
        rank = np.arange(self._good, self._good + size)
        bad = np.array([one.number for one in misshapen], np.int64)
        good_before_bad = bad - 1 - np.arange(self._bad, self._bad + len(bad))
        row = rank + 1 + self._bad + np.searchsorted(good_before_bad, rank, side="right")
        taken = len(bad) if last else int(np.searchsorted(bad, row[-1])) if size else 0
        bad, aside = bad[:taken], misshapen[:taken]
        del misshapen[:taken]

        line, bad_line = row + self._spill, bad + self._spill
        spilled = 0
        if self._layout.quoted:
            breaks = sum((pc.count_substring(c, "\n").to_numpy() for c in columns), np.zeros(size, np.int64))
            spill = np.concatenate([breaks, [one.breaks for one in aside]]).astype(np.int64)
            order = np.argsort(np.concatenate([row, bad]))
            earlier = np.empty_like(spill)
            earlier[order] = np.cumsum(spill[order]) - spill[order]
            line, bad_line = line + earlier[:size], bad_line + earlier[size:]
            spilled = int(spill.sum())
        self._good += size
        self._bad += taken
        self._spill += spilled

        blank = np.logical_and.reduce([pc.equal(c, "").to_numpy(zero_copy_only=False) for c in columns])
        if blank.any():
            columns, line = [c.filter(pa.array(~blank)) for c in columns], line[~blank]
        odd = [Misshapen(int(at), one.text) for at, one in zip(bad_line, aside, strict=True)]
        return Records(columns, line, odd, self.lines - before)


class _Utf8(io.RawIOBase):
    """Provide the lines that begin in a byte range as UTF-8, with one-byte separators."""

    def __init__(self, stream: BinaryIO, piece: Piece, file: str, layout: Layout) -> None:
        super().__init__()
        self._stream, self._piece, self._file, self._layout = stream, piece, file, layout
        self._separator = layout.separator.encode()
        self._one = _one_character(layout).encode()
        self._codec = codecs.lookup(layout.encoding)
        self._decoder = self._codec.incrementaldecoder()
        self._position = 0
        self._lines = 0
        self._left = memoryview(b"")
        self._done = False
        if piece.start:
            with readable_errors(file):
                self._position = line_start(stream, piece.start)

    def readable(self) -> bool:
        """Return true, which Arrow requires."""
        return True

    def peek(self) -> bytes:
        """Return the next bytes without consuming them; empty at the end."""
        self._fill()
        return bytes(self._left)

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer only at the end: Arrow would treat a short block as one in which no row ends."""
        taken: list[bytes] = []
        wanted = size if size >= 0 else sys.maxsize
        while wanted > 0:
            self._fill()
            if not self._left:
                break
            taken.append(bytes(self._left[:wanted]))
            self._left = self._left[wanted:]
            wanted -= len(taken[-1])
        return b"".join(taken)

    def _fill(self) -> None:
        while not self._left and not self._done:
            self._left = memoryview(self._next())

    def lines_before(self) -> int:
        """Count the lines of the file before the piece; called only when a message needs it."""
        if not self._piece.start:
            return 0
        self._stream.seek(0)
        total, left = 0, line_start(self._stream, self._piece.start)
        self._stream.seek(0)
        while left > 0 and (chunk := self._stream.read(min(left, ARROW_BYTES))):
            total, left = total + chunk.count(b"\n"), left - len(chunk)
        return total

    def _next(self) -> bytes:
        size = ARROW_BYTES
        if self._piece.stop is not None:
            size = min(size, self._piece.stop - self._position)
        with readable_errors(self._file):
            raw = self._stream.read(size) if size > 0 else b""
            if raw and not raw.endswith(b"\n"):
                rest = self._stream.readline(LINE_LIMIT)
                if len(rest) == LINE_LIMIT and not rest.endswith(b"\n"):
                    raise UsageError(
                        f"a line is longer than {LINE_LIMIT // 2**20} MiB",
                        where=self._layout.place(self._file, f"line {self._lines + self.lines_before() + 1}"),
                        remedy="check source.format; a text file needs line breaks",
                    )
                raw += rest
        self._position += len(raw)
        self._done = not raw
        return self._utf8(raw)

    def _utf8(self, raw: bytes) -> bytes:
        try:
            text = self._decoder.decode(raw, final=self._done)
        except UnicodeError as error:
            good = 0
            if isinstance(error, UnicodeDecodeError):
                good = error.object[: error.start].decode(self._codec.name, "ignore").count("\n")
            raise UsageError(
                f"the text is not {self._codec.name}",
                where=self._layout.place(self._file, f"line {self._lines + good + self.lines_before() + 1}"),
                remedy="set source.encoding to that of the file, for example 'latin-1', or repair the file",
            ) from None
        data = raw if self._codec.name == "utf-8" else text.encode()
        self._lines += data.count(b"\n")
        return data if self._one == self._separator else data.replace(self._separator, self._one)


def line_start(stream: BinaryIO, position: int) -> int:
    """Return where the first line at or after a position begins, and leave the stream there."""
    stream.seek(position - 1)
    while not (rest := stream.readline(LINE_LIMIT)).endswith(b"\n") and rest:
        pass
    return stream.tell()


def _one_character(layout: Layout) -> str:
    return layout.separator if len(layout.separator) == 1 else "\x1f"
