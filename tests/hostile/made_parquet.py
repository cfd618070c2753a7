"""Make Parquet files that lie: footers and page headers that differ from what follows them."""

import io
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile import compact_thrift as thrift

ROW_GROUPS, COLUMNS, CHUNK = 4, 1, 3  # fields of FileMetaData, RowGroup and ColumnChunk
DATA_PAGE, DICTIONARY_PAGE = 9, 11  # fields of ColumnMetaData: offsets
UNCOMPRESSED, COMPRESSED = 2, 3  # fields of PageHeader
EXTREMES = (-1, 0, 1, -(2**31), 2**31 - 1, 2**31, 2**32, 2**40, -(2**63), 2**63 - 1, 10**6, 10**7, 17)


def written(table: pa.Table, **settings: Any) -> bytes:
    """Return a table as a Parquet file."""
    out = io.BytesIO()
    pq.write_table(table, out, **settings)
    return out.getvalue()


def footer_of(data: bytes) -> tuple[int, list]:
    """Return where the footer begins, and its fields."""
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if begin < 4 or data[-4:] != b"PAR1":
        raise ValueError("no footer")
    return begin, thrift.Reader(data, begin).struct()


def with_footer(data: bytes, change: Callable[[list], object]) -> bytes:
    """Return the file with another footer."""
    begin, footer = footer_of(data)
    change(footer)
    written = thrift.encode(footer)
    return data[:begin] + written + len(written).to_bytes(4, "little") + b"PAR1"


def with_page(
    data: bytes,
    column: int,
    change: Callable[[list, bytes], bytes],
    *,
    which: int = DATA_PAGE,
    group: int = 0,
    honest: bool = True,
) -> bytes:
    """Return the file with another page: `change` edits its header and returns its content.

    The offsets behind it move along; with `honest` the footer's sizes do too.
    """
    begin, footer = footer_of(data)
    at = thrift.field(footer, ROW_GROUPS, group, COLUMNS, column, CHUNK, which)
    reader = thrift.Reader(data, at)
    header = reader.struct()
    stop = reader.at + thrift.field(header, COMPRESSED)
    before = thrift.field(header, UNCOMPRESSED)
    content = change(header, data[reader.at : stop])
    page = thrift.encode(header) + content
    moved = len(page) - (stop - at)
    for rows in thrift.field(footer, ROW_GROUPS)[1]:
        for chunk in thrift.field(rows, COLUMNS)[1]:
            about = thrift.field(chunk, CHUNK)
            own = about is thrift.field(footer, ROW_GROUPS, group, COLUMNS, column, CHUNK)
            for one in about:
                if one[0] in (DATA_PAGE, DICTIONARY_PAGE) and one[2] > at:
                    one[2] += moved
                if own and one[0] == 7:
                    one[2] += moved
                if own and honest and one[0] == 6:
                    one[2] += thrift.field(header, UNCOMPRESSED) - before
    changed = data[:at] + page + data[stop:begin]
    tail = thrift.encode(footer)
    return changed + tail + len(tail).to_bytes(4, "little") + b"PAR1"


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the file with a few values of its footer or of a page header replaced."""
    try:
        if rng.random() < 0.35:
            _, footer = footer_of(data)
            group = rng.randrange(len(thrift.field(footer, ROW_GROUPS)[1]))
            column = rng.randrange(len(thrift.field(footer, ROW_GROUPS, group, COLUMNS)[1]))
            which = rng.choice((DATA_PAGE, DICTIONARY_PAGE))

            def change(header: list, content: bytes) -> bytes:
                _spoil(header, rng)
                return bytes_changed(content, rng) if rng.random() < 0.5 else content

            return with_page(data, column, change, which=which, group=group, honest=rng.random() < 0.7)
        return with_footer(data, lambda footer: [_spoil(footer, rng) for _ in range(rng.randint(1, 3))])
    except (ValueError, StopIteration, IndexError, RecursionError, OverflowError, TypeError):
        return bytes_changed(data, rng)


def _spoil(fields: list, rng: random.Random) -> None:
    """Replace one value by an extreme one of its kind, or repeat or drop elements of a list."""
    owner, at, kind = rng.choice(list(thrift.leaves(thrift.STRUCT, fields)))
    value = owner[at]
    if kind in thrift.WHOLE:
        owner[at] = rng.choice((*EXTREMES, value + 1, value - 1, value * 2, value * 1000))
    elif kind in (thrift.TRUE, thrift.FALSE):
        owner[at] = not value
    elif kind == thrift.BYTE:
        owner[at] = rng.randrange(256)
    elif kind == thrift.BINARY:
        owner[at] = rng.choice(
            (b"", b"\xff\xfe", b"user", b"rating", b"\0", bytes_changed(value, rng), value * 9)
        )
    elif kind in (thrift.LIST, thrift.SET) and value[1]:
        owner[at] = [value[0], rng.choice(([], value[1][:-1], value[1] * 2, value[1][::-1]))]


def bytes_changed(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some of them replaced, removed, repeated or put in."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        way = rng.randrange(5)
        if way == 0 and at < len(out):
            out[at] = rng.choice((0, 255, 127, 128, rng.randrange(256)))
        elif way == 1:
            del out[at : at + rng.choice((1, 2, 8, 100))]
        elif way == 2:
            out[at:at] = out[at : at + rng.choice((1, 8, 100))] * rng.choice((1, 3))
        elif way == 3:
            out[at:at] = rng.choice(PIECES)
        else:
            del out[at:]
    return bytes(out)


PIECES = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\n", b"\r\n", b'"', b'""', b",", b"\t", b"::", b"|", b";",
    b"nan", b"inf", b"-inf", b"1e999", b"-0", b"9" * 400, b"NaN", b"Infinity", b"0x10", b"1_000", b"\xed\xa0\x80",
    b"\x1b[2J", b"\x1b]0;x\x07", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"2026-01-01T00:00:00+99:99", b"99999-12-31",
    b"9223372036854775808", b"\xd9\xa3", b"1:\n", b"1:", b"[" * 600, b"{" * 600, b"a" * 3000, b"=cmd()", b"<script>",
)  # fmt: skip
