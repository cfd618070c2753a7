"""Where ratings come from: one file per format, named after it (`movielens-1m` → movielens_1m.py).

A format has two functions:

    pieces(source, snapshot) -> list[Piece]
        parts that workers can read independently, in the order of the file
    read(piece, source, snapshot) -> Iterator[RatingBlock]
        its ratings, in memory bounded by source.block_bytes

and may have a third, where people's attributes come with the ratings:

    attributes(source, snapshot) -> pa.Table | None
        a column `user` and one per name of source.attribute_names, as text; None where the table is not there

Adding a format is adding its file here and its name to `tasks.config.source.FormatName`. Modules whose names
begin with an underscore are shared parts.
"""

import pkgutil
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from typing import Any

import pyarrow as pa

from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats import _attributes
from tasks.formats._blocks import BadRow, Ids, Piece, RatingBlock
from tasks.formats._files import expand_path, states

__all__ = [
    "BadRow",
    "Ids",
    "Piece",
    "RatingBlock",
    "attributes",
    "expand_path",
    "no_ratings",
    "pieces",
    "read",
    "read_all",
    "registered",
    "state",
]


def registered() -> list[str]:
    """The names of all formats."""
    modules = (m.name for m in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in modules if not name.startswith("_"))


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Parts of the source that can be read independently; their order is the order in the file."""
    return _format(source).pieces(source, snapshot)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """The ratings of one piece. Line numbers count from the piece's beginning."""
    return _format(source).read(piece, source, snapshot)


def read_all(source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """All ratings of the source in order, with the line numbers of the file."""
    lines = rows = 0
    for piece in pieces(source, snapshot):
        if piece.start == 0:
            lines = 0
        before = lines
        for block in read(piece, source, snapshot):
            lines += block.lines
            rows += block.rows_read
            yield block.moved(before)
    if not rows:
        raise no_ratings(source, snapshot)


def state(source: Source, snapshot: date) -> dict[str, str]:
    """A token per file that changes when the file does, so that old results are not taken for new ones."""
    files = pieces(source, snapshot)
    if source.attributes.path is not None:
        found = _attributes.named_table(source, snapshot)
        files = [*files, Piece(found.files, found.container)]
    elif hasattr(_format(source), "USER_TABLE"):
        beside = _attributes.beside(source, snapshot, _format(source).USER_TABLE)
        files = [*files, Piece(beside.files, beside.container)] if beside else files
    return states(files)


def attributes(source: Source, snapshot: date) -> pa.Table | None:
    """Users and what is known about them (null: not known), as `source.attributes` puts values together; None where
    nothing is. Secret: never outside private/."""
    if source.attributes.path is not None:
        table = _attributes.read_named_table(source, snapshot)
        where = expand_path(_attributes.moved(source), snapshot)
    elif not source.attribute_names or not hasattr(_format(source), "attributes"):
        return None
    else:
        table, where = _format(source).attributes(source, snapshot), f"the user table of {source.format}"
    if table is None:
        if source.attributes.columns is not None:
            raise UsageError(
                "there is no user table beside the ratings, so nothing is known of "
                f"{', '.join(source.attribute_names)}",
                where=expand_path(source, snapshot),
                remedy="name the directory or archive that holds both in source.path, or the table in "
                "source.attributes.path",
            )
        return None
    return _attributes.tidy(table.select(["user", *source.attribute_names]), source, where)


def no_ratings(source: Source, snapshot: date) -> UsageError:
    """What to say about a source without a single row."""
    return UsageError(
        "the source has no ratings",
        where=expand_path(source, snapshot) or f"source.format = {source.format}",
        remedy="check source.path and that the export for this snapshot was complete",
    )


def _format(source: Source) -> Any:
    return import_module(f"tasks.formats.{source.format.replace('-', '_')}")
