"""What a format hands over: blocks of acceptable ratings, and which rows were set aside and why.

A message or a reason names a line and a column, never a row's content: it may be a user id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import Source

# Enough to find the mistake; the counts are complete.
OFFENDERS_KEPT = 10

# Text, or a dictionary of text (which may hold more than the rows do, and an id more than once).
Ids: TypeAlias = pa.StringArray | pa.DictionaryArray

_NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True)
class Piece:
    """A part of the source that can be read by itself, on any worker.

    `files` are fsspec paths, or members of the archive `container`. A piece that begins inside its file
    counts its lines from its own beginning; `start` and `stop` are bytes (parquet: row groups; synthetic:
    people).
    """

    files: tuple[str, ...] = ()
    container: str = ""
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class BadRow:
    """Where a row was set aside and why."""

    line: int
    reason: str
    file: str = ""

    def __str__(self) -> str:
        return (
            f"{self.file} line {self.line}: {self.reason}"
            if self.file
            else f"line {self.line}: {self.reason}"
        )


@dataclass(frozen=True)
class RatingBlock:
    """Acceptable ratings (finite, on the scale, both ids there) and the account of the other rows."""

    users: Ids
    items: Ids
    ratings: np.ndarray
    timestamps: np.ndarray | None
    rows_read: int
    rejected: dict[str, int]
    offenders: tuple[BadRow, ...] = ()
    lines: int = 0

    @property
    def rejected_rows(self) -> int:
        """Rows set aside, for whatever reason."""
        return sum(self.rejected.values())

    def moved(self, lines: int) -> "RatingBlock":
        """The same block with `lines` more lines before it."""
        return replace(self, offenders=tuple(replace(o, line=o.line + lines) for o in self.offenders))


def screen(
    users: Ids,
    items: Ids,
    ratings: pa.Array,
    timestamps: pa.Array | None,
    *,
    line_of_row: np.ndarray,
    source: Source,
    file: str = "",
    lines: int = 0,
    misshapen: Sequence[BadRow] = (),
) -> RatingBlock:
    """Separate what can be used from what cannot; `misshapen` rows never became columns at all."""
    low, high = source.scale
    value = numbers(ratings)
    when, when_known = (None, np.ones(len(value), bool)) if timestamps is None else seconds(timestamps)
    with np.errstate(invalid="ignore"):
        problems = {
            "the user id is empty": _empty(users),
            "the item id is empty": _empty(items),
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
            offenders += [BadRow(int(line_of_row[row]), reason, file) for row in fresh[:OFFENDERS_KEPT]]
            good[fresh] = False
    rows_read = len(value) + len(misshapen)
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
        offenders=tuple(sorted(offenders, key=lambda o: o.line)[:OFFENDERS_KEPT]),
        lines=lines,
    )


def numbers(column: pa.Array) -> np.ndarray:
    """Numbers or text → float64; NaN where it is no number. (Arrow and no locale: '3,5' is none.)"""
    if not _is_text(column.type):
        return _to_numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
    try:
        return _to_numpy(pc.cast(column, pa.float64()), np.nan)
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None)
        return _to_numpy(pc.cast(text, pa.float64()), np.nan)


def seconds(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Epoch seconds, dates or ISO text → (int64 seconds since 1970, whether it could be read)."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        return _known(pc.cast(column, pa.timestamp("s", zone), safe=False))
    if pa.types.is_signed_integer(column.type):
        value, known = _known(column)
        return value, known & (value > -(2**62)) & (value < 2**62)
    if not _is_text(column.type):
        return _from_numbers(numbers(column))
    for kind in (pa.int64(), pa.timestamp("s")):  # a column of the other kind fails at its first row: cheap
        try:
            return _known(pc.cast(column, kind))
        except pa.ArrowInvalid:
            continue
    return _mixed(column)


def _mixed(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Timestamps of several kinds, or with bad ones among them: the slow way round."""
    import pandas as pd

    value, known = _from_numbers(numbers(column))
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


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
