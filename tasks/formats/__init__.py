"""Read ratings: one file per format, named after it (`movielens-1m` → movielens_1m.py).

A format declares `FORMAT = Format(…)` (tasks/config/formats.py): its scale, its user attributes, its user table. The
arguments are literals, because the configuration reads them from the file without importing it. It has two functions:

    pieces(source, snapshot) -> list[Piece]
        parts that workers can read independently, in the order of the file
    read(piece, source, snapshot) -> Iterator[RatingBlock]
        its ratings, in memory bounded by source.block_bytes

and, where user attributes come with the ratings, a third:

    attributes(source, snapshot) -> pa.Table | None
        a column `user` and one per name of source.attribute_names, as text; None where the table is missing

A format whose ratings are in no file says by itself whether they changed:

    state(source, snapshot) -> dict[str, str]
        what changes whenever the ratings do

To add a format, add its file here; nothing else changes. Modules whose names begin with an underscore are shared parts.

May import config and errors only: checks read sources with this package as well.
"""

from collections.abc import Iterator
from datetime import date
from importlib import import_module
from typing import Any

import pyarrow as pa

from tasks.config import Source, plugins
from tasks.errors import UsageError
from tasks.formats import _attributes
from tasks.formats._blocks import BadRow, Ids, Piece, RatingBlock, bad_rows_remedy, wider
from tasks.formats._files import content_digest, expand_path, states
from tasks.formats._published import damaged, most_bytes, read_published, safe_rows

__all__ = [
    "BadRow",
    "Ids",
    "Piece",
    "RatingBlock",
    "attributes",
    "bad_rows_remedy",
    "content",
    "damaged",
    "expand_path",
    "most_bytes",
    "no_ratings",
    "pieces",
    "read",
    "read_all",
    "read_published",
    "registered",
    "require_readable",
    "safe_rows",
    "state",
    "wider",
]


def registered() -> list[str]:
    """Return the names of all formats."""
    return plugins.names(__name__)


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Return parts of the source that can be read independently, in the order of the file."""
    return _format(source).pieces(source, snapshot)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of one piece. Line numbers count from the piece's beginning."""
    return _format(source).read(piece, source, snapshot)


def read_all(source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield all ratings of the source in order, with the line numbers of the file."""
    lines = rows = 0
    for piece in pieces(source, snapshot):
        if piece.start == 0:
            lines = 0
        before = lines
        for block in read(piece, source, snapshot):
            lines += block.lines
            rows += block.rows_read
            yield block.after(before)
    if not rows:
        raise no_ratings(source, snapshot)


def require_readable(source: Source, snapshot: date) -> None:
    """Refuse a source that is missing or whose columns are not there, from its first rows: before workers start."""
    for piece in pieces(source, snapshot)[:1]:
        next(iter(read(piece, source, snapshot)), None)
    state(source, snapshot)


def state(source: Source, snapshot: date) -> dict[str, str]:
    """Return a token per file that changes when the file does, so that results of an older file are not reused."""
    own = getattr(_format(source), "state", None)
    return states(_all_files(source, snapshot)) | (own(source, snapshot) if own else {})


def content(source: Source, snapshot: date) -> str | None:
    """Return a digest of the content of all files that `state` covers; None where one of them is not local, and where
    the format's own state says more."""
    if hasattr(_format(source), "state"):
        return None
    return content_digest(_all_files(source, snapshot))


def _all_files(source: Source, snapshot: date) -> list[Piece]:
    files = pieces(source, snapshot)
    if source.attributes.path is not None:
        found = _attributes.named_table(source, snapshot)
        files = [*files, found.piece()]
    elif source.declared.user_table:
        user_table = _attributes.find_user_table(source, snapshot, source.declared.user_table)
        files = [*files, user_table.piece()] if user_table else files
    return files


def attributes(source: Source, snapshot: date) -> pa.Table | None:
    """Return a table of users and their attributes (null: not known), grouped as `source.attributes` says; None where
    the source has no attributes. Secret: never outside private/."""
    if source.attributes.path is not None:
        table = _attributes.read_named_table(source, snapshot)
        where = expand_path(_attributes.with_user_table_path(source), snapshot)
    elif not source.attribute_names or not hasattr(_format(source), "attributes"):
        return None
    else:
        table, where = _format(source).attributes(source, snapshot), f"the user table of {source.format}"
    if table is None:
        if source.attributes.columns is not None:
            raise UsageError(
                "there is no user table beside the ratings, so these attributes are not known: "
                f"{', '.join(source.attribute_names)}",
                where=expand_path(source, snapshot),
                remedy="name the directory or archive that holds both in source.path, or the table in "
                "source.attributes.path",
            )
        return None
    return _attributes.one_row_per_user(table.select(["user", *source.attribute_names]), source, where)


def no_ratings(source: Source, snapshot: date) -> UsageError:
    """Return the error for a source without a single row."""
    return UsageError(
        "the source has no ratings",
        where=expand_path(source, snapshot) or f"source.format = {source.format}",
        remedy="check source.path and that the export for this snapshot was complete",
    )


def _format(source: Source) -> Any:
    return import_module(plugins.module_name(__name__, source.format))
