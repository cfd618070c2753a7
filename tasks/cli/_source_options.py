"""Declare and read the options that name the source of a release, for `murmur audit` and `murmur attack`."""

import argparse
import json
from pathlib import Path
from typing import Any

from tasks.config import ReleaseConfig, Source, formats, load, parse
from tasks.errors import UsageError


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the ratings are and how to read them."""
    source = parser.add_argument_group("source")
    source.add_argument("--source", default=None, metavar="PATH", help="file or directory of ratings")
    source.add_argument(
        "--format",
        default=None,
        choices=formats.names(),
        metavar="FORMAT",
        help=f"format of --source: {', '.join(formats.names())}",
    )
    source.add_argument(
        "--config",
        default=None,
        metavar="CONFIG",
        help="release file: take [source] and [gate] from it instead",
    )
    source.add_argument(
        "--columns", default=None, metavar="NAMES", help="csv, parquet: names of user,item,rating[,timestamp]"
    )
    source.add_argument("--delimiter", default=",", help="csv: character between the columns (default ,)")
    source.add_argument("--encoding", default="utf-8", help="csv: text encoding (default utf-8)")
    source.add_argument(
        "--users",
        default=None,
        metavar="PATH",
        help="csv or parquet table of user attributes, one row per user",
    )
    source.add_argument(
        "--attributes", default=None, metavar="NAMES", help="attribute columns of --users, such as gender,age"
    )
    source.add_argument(
        "--protect",
        default=None,
        metavar="NAMES",
        help="attributes that must not be inferable, separated by commas (default: as in --config)",
    )


def source_from_options(
    options: argparse.Namespace, published: Path | None
) -> tuple[Source, dict[str, float]]:
    """Return the source and the thresholds, from a release file or from the options."""
    if options.config and (options.source or options.format):
        raise UsageError(
            "the source is given twice",
            where="--config, --source, --format",
            remedy="give either --config, or --source and --format",
        )
    if options.config:
        config: ReleaseConfig = load(options.config)
        return config.source, config.gate
    if not options.format:
        raise UsageError(
            "the source of the ratings is not given",
            where="--source, --format",
            remedy="give --source and --format, or --config CONFIG",
        )
    table: dict[str, Any] = {"format": options.format, "path": options.source}
    if formats.declared(options.format).scale is None:  # the owner must state it
        table["scale"] = _published_scale(published) if published else _parse_scale(options.scale)
        table |= {"delimiter": options.delimiter, "encoding": options.encoding}
        if options.columns:
            table["columns"] = _parse_columns(options.columns)
    if options.users or options.attributes:
        table["attributes"] = _attribute_table(options, table)
    return parse({"release": {"name": "source"}, "source": table}, "--source, --format").source, {}


def protected_attributes_from_options(
    options: argparse.Namespace, source: Source, private: Path | None = None
) -> tuple[str, ...]:
    """Return the attributes that must not be inferable.

    Those of `--protect`, else those of the release file, else those that the release was made to protect.
    """
    if options.protect is None and options.config:
        return load(options.config).protected_attributes
    names = (
        _protected_by_release(private)
        if options.protect is None
        else tuple(dict.fromkeys(_split_names(options.protect)))
    )
    if unknown := [name for name in names if name not in source.attribute_names]:
        origin = "" if options.protect else ", which this release protects"
        raise UsageError(
            f"the source has no attribute {', '.join(unknown)}{origin}",
            where="--protect",
            remedy="give the user table with --users and its attribute columns with --attributes",
        )
    return names


def _protected_by_release(private: Path | None) -> tuple[str, ...]:
    """Return what a release protects; nothing if its verdict is unreadable or of a version that did not record it."""
    if private is None:
        return ()
    try:
        return tuple(json.loads((private / "verdict.json").read_text(encoding="utf-8"))["protect"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _attribute_table(options: argparse.Namespace, table: dict[str, Any]) -> dict[str, Any]:
    """Return [source.attributes]; the user table is read like the ratings (column of ids, delimiter, encoding)."""
    attributes: dict[str, Any] = {"path": options.users}
    if options.attributes:
        attributes["columns"] = _split_names(options.attributes)
    if options.users:
        attributes |= {"delimiter": options.delimiter, "encoding": options.encoding}
        attributes["user"] = table.get("columns", {}).get("user", "user")
    return attributes


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_columns(text: str) -> dict[str, str]:
    names = text.split(",")
    if len(names) not in (3, 4):
        raise UsageError(
            f"{len(names)} column names are given",
            where="--columns",
            remedy="give user,item,rating[,timestamp]",
        )
    return dict(zip(("user", "item", "rating", "timestamp"), names, strict=False))


def _parse_scale(text: str | None) -> list[float]:
    try:
        low, high = (float(end) for end in (text or "").split(","))
    except ValueError:
        what = f"'{text}' is not a rating scale" if text else "csv and parquet files do not state their scale"
        raise UsageError(
            what, where="--scale", remedy="give the lowest and the highest possible rating, such as 1,5"
        ) from None
    return [low, high]


def _published_scale(published: Path) -> list[float]:
    """Return the scale in a release's manifest; the gate refuses a manifest that cannot be read."""
    try:
        low, high = json.loads((published / "manifest.json").read_text(encoding="utf-8"))["rating_scale"]
        return [float(low), float(high)]
    except (OSError, ValueError, TypeError, KeyError):
        return [1.0, 5.0]
