"""Bound what the pages of a Parquet file expand to, from the pages' own headers: before Arrow decompresses them.

The footer states sizes, and nothing forces them to be true. A page's header states how many bytes the page has
decompressed, and Arrow allocates exactly that and refuses a page that has more: so the headers, and nothing else,
bound the memory. They are read one after the other: a few bytes each, and the pages between them are skipped.

Headers and footer are written in Thrift's compact protocol; of its types only those are known here that they have.
"""

import io
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

import pyarrow.parquet as pq

from tasks.errors import UsageError

MOST_PAGE_BYTES = (
    2**28
)  # decompressed; writers make pages of about 1 MiB, some a whole column chunk of a row group
MOST_PAGES = 100_000  # of a column in a row group
HEADER_BYTES = 2**16  # statistics in a header may quote a lowest and a highest value
SMALL_HEADER = 2**8
FOOTER_BYTES = (
    2**23
)  # in memory it takes up to two hundred times as much; four columns need 600 bytes a row group
BATCH_BYTES = 2**28  # of decoded values at once
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_DICTIONARY_PAGE = 2
_DELTA_BYTE_ARRAY = 7  # an encoding in which values share the beginning of the value before
_STRUCT, _LISTS, _BINARY, _DOUBLE, _BYTE, _TRUE, _FALSE, _WHOLE = 12, (9, 10), 8, 7, 3, 1, 2, (4, 5, 6)
_DEEPEST = 8


class Chunk(NamedTuple):
    """Hold what the pages of a column in a row group state together: their bytes and values.

    `longest` is the most bytes that a value has on average in any page (`average`); where values are stored once and
    referred to, or share their beginnings, all bytes of the largest page. Numbers have the width of their type.
    `listed` values are in a dictionary, and only by it some may be longer than on average.
    """

    expanded: int
    values: int
    longest: int
    average: int = 0
    listed: int = 0
    column: str = ""


class Table(NamedTuple):
    """Hold an opened Parquet file and its footer as it is written.

    Arrow ends the process, with no error that could be caught, where it is asked for a column chunk whose statistics
    are malformed. So what is needed of column chunks is read here, and such files are refused.
    """

    file: pq.ParquetFile
    groups: list[list[dict[int, Any]]]  # ColumnMetaData of each column, of each row group


def open_table(stream: BinaryIO, where: str) -> Table:
    """Open a Parquet file whose footer is not made to fill the memory or to end the process."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - 8))
    length = int.from_bytes(stream.read(4), "little")
    if FOOTER_BYTES < length <= size:
        raise UsageError(
            f"the footer of the Parquet file has more than {FOOTER_BYTES:,} bytes",
            where=where,
            remedy="write it again with larger row groups (a million rows), or as several files",
        )
    stream.seek(0)
    file = pq.ParquetFile(stream, pre_buffer=False)
    stream.seek(max(0, size - 8 - length))
    try:
        footer = _Compact(stream.read(length)).struct()
        groups = [[chunk[3] for chunk in group.get(1, [])] for group in footer.get(4, [])]
        schema = file.metadata.schema
        columns = [schema.column(place) for place in range(file.metadata.num_columns)]
        sound = all(len(group) == len(columns) and all(map(_is_sound, group, columns)) for group in groups)
    except (IndexError, KeyError, TypeError, AttributeError, ValueError):
        sound = False
    if not sound or len(groups) != file.metadata.num_row_groups:
        raise contradiction(where)
    return Table(file, groups)


def _is_sound(chunk: dict[int, Any], column: pq.ColumnSchema) -> bool:
    """Return whether a column chunk has the type of its column, places and sizes, and histograms of levels (if any) of
    the right length."""
    sizes = chunk.get(16, {})
    histograms = ((column.max_repetition_level, sizes.get(2)), (column.max_definition_level, sizes.get(3)))
    fits = all(not held or len(held) == most + 1 for most, held in histograms)
    numbers = all(isinstance(chunk[key], int) for key in (5, 7, 9)) and isinstance(chunk.get(11, 0), int)
    return fits and numbers and _TYPES[chunk[1]] == column.physical_type


def text_columns(table: Table, wanted: Sequence[str]) -> list[str]:
    """Return which columns can be read as dictionaries, so that a long text that occurs often is held once."""
    metadata = table.file.metadata
    leaves = {metadata.schema.column(place).path for place in range(metadata.num_columns)}
    return [name for name in wanted if name in leaves]


def row_group_chunks(
    stream: BinaryIO, table: Table, number: int, columns: Sequence[str], where: str
) -> list[Chunk]:
    """Return what the pages of some columns of a row group state, those of their nested fields among them."""
    size = stream.seek(0, io.SEEK_END)
    schema = table.file.metadata.schema
    return [
        _measure(stream, chunk, size, where)._replace(column=schema.column(place).path)
        for place, chunk in enumerate(table.groups[number])
        if schema.column(place).path.split(".")[0] in columns or schema.column(place).path in columns
    ]


def bounded_rows(chunks: Iterable[Chunk], most: int) -> int:
    """Return how many rows may be decoded at once: at most `most`, and fewer where values are long."""
    longest = max((chunk.longest for chunk in chunks), default=0)
    return max(1, min(most, BATCH_BYTES // max(1, longest)))


def contradiction(where: str) -> UsageError:
    """Return the error for a file whose parts state different things."""
    return UsageError(
        "the file cannot be read in this format: its footer and its pages contradict each other",
        where=where,
        remedy="fetch it again, or write it again with a usual Parquet writer",
    )


def _measure(stream: BinaryIO, about: dict[int, Any], file_bytes: int, where: str) -> Chunk:
    """Return what the pages of a column chunk state; refuse pages that lie outside of the file or are too large."""
    at, most_values = about[9], about[5]
    if most_values <= 0:  # Arrow reads no page then
        return Chunk(0, 0, 0)
    if 0 < about.get(11, 0) < at:
        at = about[11]
    stop = at + about[7]
    if not 4 <= at <= stop <= file_bytes:
        raise contradiction(where)
    expanded = values = largest = average = pages = listed = 0
    shared = False
    while at < stop and values < most_values:
        page, length = _header(stream, at, stop, where)
        pages += 1
        at += length + page.compressed
        if page.compressed < 0 or page.expanded < 0 or at > stop or pages > MOST_PAGES:
            raise contradiction(where)
        if page.expanded > MOST_PAGE_BYTES:
            raise UsageError(
                f"a page of the Parquet file has {page.expanded:,} bytes when decompressed, more than the "
                f"{MOST_PAGE_BYTES:,} that are read at once",
                where=where,
                remedy="write the file again with smaller row groups or pages; writers usually make pages of 1 MiB",
            )
        expanded += page.expanded
        largest = max(largest, page.expanded)
        shared |= page.encoding == _DELTA_BYTE_ARRAY
        if page.kind == _DICTIONARY_PAGE:
            listed += max(1, page.values)
        else:
            values += max(0, page.values)
            average = max(average, page.expanded // max(1, page.values))
    if width := _WIDTHS.get(_TYPES[about[1]]):
        return Chunk(expanded, values, width)
    longest = largest if listed or shared else average
    return Chunk(expanded, values, longest, average, 0 if shared else listed)


class _Page(NamedTuple):
    kind: int
    expanded: int
    compressed: int
    values: int
    encoding: int


def _header(stream: BinaryIO, at: int, stop: int, where: str) -> tuple[_Page, int]:
    """Return a page's header and its length."""
    for size in (SMALL_HEADER, HEADER_BYTES):
        stream.seek(at)
        data = stream.read(min(size, stop - at))
        try:
            reader = _Compact(data)
            fields = reader.struct()
            about: dict[int, Any] = next(
                (fields[key] for key in (5, 7, 8) if isinstance(fields.get(key), dict)), {}
            )
            kind, expanded, compressed = (_whole(fields.get(key)) for key in (1, 2, 3))
            # DataPageHeaderV2 has the encoding in field 4, the others in field 2.
            encoding = about.get(4 if 8 in fields else 2)
            return _Page(kind, expanded, compressed, _whole(about.get(1)), _whole(encoding)), reader.at
        except IndexError:
            continue  # the header is longer than what was read
        except ValueError:
            break
    raise contradiction(where)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError
    return value


class _Compact:
    """Decode structs of Thrift's compact protocol.

    Raises an IndexError where the data end, a ValueError where they are none.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by their numbers; texts, truth values and floats are None."""
        if depth > _DEEPEST:
            raise ValueError
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int, *, inside: bool = False) -> Any:
        if kind in _WHOLE:
            return self._zigzag()
        if kind in (_TRUE, _FALSE):
            self.at += inside
        elif kind == _BYTE:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._varint()  # it moves `at` itself
            self.at += length
        elif kind == _STRUCT:
            return self.struct(depth + 1)
        elif kind in _LISTS and not inside:
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            if count > len(self._data) - self.at:
                raise IndexError
            return [self._value(head & 15, depth, inside=True) for _ in range(count)]
        else:
            raise ValueError
        if self.at > len(self._data):
            raise IndexError
        return None

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
