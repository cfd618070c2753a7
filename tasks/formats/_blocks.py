"""Represent what a format returns: blocks of acceptable ratings, and an account of the rows set aside.

A message or a reason names a line and a column, never a row's content, which may be a user id; where the line itself
is the user id (Jester), the column only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source

# Enough to find the mistake in the file; the counts cover all rows.
OFFENDERS_KEPT = 10

# Text, or a dictionary of text (which may hold more than the rows do, and an id more than once).
Ids: TypeAlias = pa.StringArray | pa.DictionaryArray

# An id of a megabyte in every row would fill the memory of whoever sorts or groups them.
LONGEST_ID = 2048  # bytes
LONGEST_NUMBER = 64  # bytes of a rating or a time

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_EXACT = 2**53  # whole numbers below it are the same as float64


@dataclass(frozen=True)
class Piece:
    """Represent a part of the source that any worker can read by itself.

    `files` are fsspec paths, or members of the archive `container`. A piece that begins inside its file counts its
    lines from its own beginning; `start` and `stop` are bytes (parquet: row groups; synthetic: people). `budgets` are
    the bytes that each file may have when decompressed (tasks/formats/_limits.py).
    """

    files: tuple[str, ...] = ()
    container: str = ""
    start: int = 0
    stop: int | None = None
    budgets: tuple[int, ...] = ()


@dataclass(frozen=True)
class BadRow:
    """Record where a row was set aside and why; `line` is None where it is the user id."""

    line: int | None
    reason: str
    file: str = ""
    column: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f"line {self.line}"
        column = "" if self.column is None else f"column {self.column}"
        place = " ".join(part for part in (self.file, line, column) if part)
        return f"{place}: {self.reason}" if place else self.reason

    def after(self, lines: int) -> "BadRow":
        """Return the same row with `lines` more lines before it."""
        return self if self.line is None else replace(self, line=self.line + lines)


@dataclass(frozen=True)
class RatingBlock:
    """Hold acceptable ratings (finite, on the scale, with both ids) and the account of the other rows."""

    users: Ids
    items: Ids
    ratings: np.ndarray
    timestamps: np.ndarray | None
    rows_read: int
    rejected: dict[str, int]
    offenders: tuple[BadRow, ...] = ()
    lines: int = 0
    off_scale: tuple[float, float] | None = None  # lowest and highest rating that was set aside for the scale

    def after(self, lines: int) -> "RatingBlock":
        """Return the same block with `lines` more lines before it."""
        return replace(self, offenders=tuple(o.after(lines) for o in self.offenders))


def screen(
    users: Ids,
    items: Ids,
    ratings: pa.Array,
    timestamps: pa.Array | None,
    *,
    line_of_row: np.ndarray | None,
    source: Source,
    file: str = "",
    lines: int = 0,
    misshapen: Sequence[BadRow] = (),
    column_of_row: np.ndarray | None = None,
) -> RatingBlock:
    """Separate usable rows from the others; `misshapen` rows could not be split into columns at all.

    A format whose line numbers are user ids passes no `line_of_row`, and `column_of_row` instead.
    """
    low, high = source.scale
    value = parse_numbers(ratings)
    when, when_known = (None, np.ones(len(value), bool)) if timestamps is None else parse_seconds(timestamps)
    with np.errstate(invalid="ignore"):
        problems = {
            "the user id is empty": _empty(users),
            "the item id is empty": _empty(items),
            f"the user id is longer than {LONGEST_ID:,} bytes": _too_long(users),
            f"the item id is longer than {LONGEST_ID:,} bytes": _too_long(items),
            "the rating is not a finite number": ~np.isfinite(value),
            f"the rating is off the scale [{low:g}, {high:g}]": ~((value >= low) & (value <= high)),
            "the timestamp is neither seconds since 1970 nor an ISO date": ~when_known,
        }
    good = np.ones(len(value), bool)
    rejected: dict[str, int] = {}
    offenders = list(misshapen[:OFFENDERS_KEPT])
    for bad_row in misshapen:
        rejected[bad_row.reason] = rejected.get(bad_row.reason, 0) + 1
    for reason, hit in problems.items():
        fresh = np.flatnonzero(hit & good)
        if len(fresh):
            rejected[reason] = rejected.get(reason, 0) + len(fresh)
            offenders += [
                BadRow(_at(line_of_row, row), reason, file, _at(column_of_row, row))
                for row in fresh[:OFFENDERS_KEPT]
            ]
            good[fresh] = False
    rows_read = len(value) + len(misshapen)
    beyond = value[np.isfinite(value) & ~((value >= low) & (value <= high))]
    off_scale = (float(beyond.min()), float(beyond.max())) if len(beyond) else None
    if not good.all():
        keep = pa.array(good)
        users, items, value = users.filter(keep), items.filter(keep), value[good]
        when = None if when is None else when[good]
    return RatingBlock(
        users=users,
        items=items,
        ratings=value.astype(np.float32),
        timestamps=when,
        rows_read=rows_read,
        rejected=rejected,
        offenders=tuple(sorted(offenders, key=lambda o: o.line or 0)[:OFFENDERS_KEPT]),
        lines=lines,
        off_scale=off_scale,
    )


def wider(seen: tuple[float, float] | None, more: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the range that holds both ranges."""
    if seen is None or more is None:
        return seen or more
    return min(seen[0], more[0]), max(seen[1], more[1])


def bad_rows_remedy(
    rejected: Mapping[str, int], off_scale: tuple[float, float] | None, source: Source
) -> str:
    """Return what to do about rows that cannot be used, by what most of them lack."""
    reason = max(rejected, key=lambda one: rejected[one], default="")
    if "scale" in reason and off_scale is not None:
        low, high = source.scale
        least, most = off_scale
        beyond = f"from {least:g} to {most:g}" if least < most else f"of {least:g}"
        seen = f"ratings {beyond} were seen beside those on [{low:g}, {high:g}]"
        return f"{seen}: set source.scale to the lowest and the highest rating that is possible"
    if "timestamp" in reason:
        return (
            "export times as seconds since 1970 or as ISO dates; or do without them (they are optional): remove "
            "the column from the file, or name another in source.columns.timestamp"
        )
    if "columns" in reason:
        return "check source.format and source.delimiter, or repair these rows"
    return "repair these rows, check source.columns, or raise source.max_bad_rows"


def _at(numbers: np.ndarray | None, row: int) -> int | None:
    return None if numbers is None else int(numbers[row])


def parse_numbers(column: pa.Array) -> np.ndarray:
    """Convert numbers or text to float64; NaN for anything else. (No locale: '3,5' is not a number.)

    The result for a row must not depend on other rows, which are other people's: that one of them cannot be read sends
    the whole block to the slower way, which has to accept the same (docs/proofs/dp-synthetic.md).
    """
    if not _is_text(column.type):
        return _to_numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
    try:
        found = _to_numpy(pc.cast(column, pa.float64()), np.nan)
        return np.where(np.isfinite(found), found, np.nan)  # 'inf' is no number
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None)
        found = _to_numpy(pc.cast(text, pa.float64()), np.nan)
        return np.where(np.isfinite(found), found, np.nan)


def parse_seconds(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Convert epoch seconds, dates or ISO text to (int64 seconds since 1970, whether it could be read).

    As with numbers, text means the same whatever other rows hold."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        return _known(pc.cast(column, pa.timestamp("s", zone), safe=False))
    if pa.types.is_signed_integer(column.type):
        value, known = _known(column)
        return value, known & (value > -(2**62)) & (value < 2**62)
    if not _is_text(column.type):
        return _from_numbers(parse_numbers(column))
    for kind in (pa.int64(), pa.timestamp("s")):  # a column of the other kind fails at its first row: cheap
        try:
            value, known = _known(pc.cast(column, kind))
        except pa.ArrowInvalid:
            continue
        if kind == pa.int64() and pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
            break  # Arrow reads 0x10, too
        return value, known & (value > -_EXACT) & (value < _EXACT)
    return _mixed(column)


def _mixed(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Parse timestamps of several kinds, or with bad ones among them: the slow path."""
    import pandas as pd

    value, known = _from_numbers(parse_numbers(column))
    known &= (value > -_EXACT) & (value < _EXACT)
    rest = np.flatnonzero(~known)
    text = pd.Series(column.take(pa.array(rest)).to_pandas(), dtype="object")
    dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    found = dates.notna().to_numpy()
    value[rest[found]] = dates[found].to_numpy("datetime64[s]").astype(np.int64)
    known[rest[found]] = True
    return value, known


def _from_numbers(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = np.abs(value) < 2.0**62  # also false for NaN
    return np.where(known, np.floor(value), 0).astype(np.int64), known


def _known(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    return _to_numpy(pc.cast(column, pa.int64()), 0), _to_numpy(column.is_valid(), False)


def _to_numpy(column: pa.Array, null: Any) -> np.ndarray:
    return (column.fill_null(null) if column.null_count else column).to_numpy(zero_copy_only=False)


def _empty(ids: Ids) -> np.ndarray:
    if not isinstance(ids, pa.DictionaryArray):
        return _to_numpy(pc.equal(ids, ""), True)
    empty = _empty(ids.dictionary)
    if not empty.any():
        return _to_numpy(ids.is_null(), True)
    return _to_numpy(pa.array(empty).take(ids.indices), True)


def _too_long(ids: Ids) -> np.ndarray:
    if not isinstance(ids, pa.DictionaryArray):
        return _to_numpy(pc.greater(pc.binary_length(ids), LONGEST_ID), False)
    return _of_dictionary(_too_long(ids.dictionary), ids)


def _of_dictionary(hit: np.ndarray, ids: pa.DictionaryArray) -> np.ndarray:
    if not hit.any():
        return np.zeros(len(ids), bool)
    return _to_numpy(pa.array(hit).take(ids.indices), False)


def shortened(column: pa.Array, most: int) -> pa.Array:
    """Return a column of short texts, such as numbers, as plain values: longer ones are null, and never repeated."""
    if not pa.types.is_dictionary(column.type):
        return column
    values = column.dictionary
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = pc.if_else(pc.greater(pc.binary_length(values), most), pa.scalar(None, values.type), values)
    return values.take(column.indices)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
