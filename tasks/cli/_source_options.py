"""The options by which `murmur audit` and `murmur attack` are told where the ratings are."""

import argparse
import json
from pathlib import Path
from typing import Any

from tasks.config import SCALES, ReleaseConfig, Source, load, parse
from tasks.errors import UsageError


def add_source(command: argparse.ArgumentParser) -> None:
    """Add them to a command."""
    command.add_argument("--source", default=None, help="path of the ratings the release was made from")
    command.add_argument("--format", default=None, choices=[*SCALES, "csv", "parquet"])
    command.add_argument(
        "--config", default=None, help="take [source] and [gate] from this release file instead"
    )
    command.add_argument(
        "--columns", default=None, help="csv, parquet: user,item,rating[,timestamp] column names"
    )
    command.add_argument("--delimiter", default=",")
    command.add_argument(
        "--users", default=None, help="csv or parquet table with a row per user: what is known beside ratings"
    )
    command.add_argument("--attributes", default=None, help="which of its columns are attributes: gender,age")
    command.add_argument(
        "--protect",
        default=None,
        help="attributes that must not be told, with commas (default: as in --config)",
    )
    command.add_argument("--encoding", default="utf-8")


def given_source(options: argparse.Namespace, published: Path | None) -> tuple[Source, dict[str, float]]:
    """The source to compare with or to attack, from a release file or from the options."""
    if options.config and (options.source or options.format):
        raise UsageError(
            "the source is named twice", where="--config, --source, --format", remedy="give one or the other"
        )
    if options.config:
        config: ReleaseConfig = load(options.config)
        return config.source, config.gate
    if not options.format:
        raise UsageError(
            "say where the ratings are", where="--source, --format", remedy="or give --config FILE"
        )
    table: dict[str, Any] = {"format": options.format, "path": options.source}
    if options.format in ("csv", "parquet"):
        table["scale"] = _published_scale(published) if published else _given_scale(options.scale)
        table |= {"delimiter": options.delimiter, "encoding": options.encoding}
        if options.columns:
            table["columns"] = _columns(options.columns)
    if options.users or options.attributes:
        table["attributes"] = _attributes(options, table)
    return parse({"release": {"name": "source"}, "source": table}, "--source, --format").source, {}


def given_protect(
    options: argparse.Namespace, source: Source, private: Path | None = None
) -> tuple[str, ...]:
    """The attributes that must not be told: those given, else those of the release file, else those a release was made
    to protect."""
    if options.protect is None and options.config:
        return load(options.config).protected_attributes
    named = _protected(private) if options.protect is None else tuple(dict.fromkeys(_names(options.protect)))
    if unknown := [name for name in named if name not in source.attribute_names]:
        said = "" if options.protect else ", which this release protects"
        raise UsageError(
            f"nothing is known of {', '.join(unknown)}{said}",
            where="--protect",
            remedy="name a user table with --users and its columns with --attributes",
        )
    return named


def _protected(private: Path | None) -> tuple[str, ...]:
    """What a release was made to protect; a verdict that cannot be read, or of an earlier version, says nothing."""
    try:
        return (
            tuple(json.loads((private / "verdict.json").read_text(encoding="utf-8"))["protect"])
            if private
            else ()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _attributes(options: argparse.Namespace, table: dict[str, Any]) -> dict[str, Any]:
    """The user table; ids and text are written as in the ratings."""
    found: dict[str, Any] = {"path": options.users}
    if options.attributes:
        found["columns"] = _names(options.attributes)
    if options.users:
        found |= {"delimiter": options.delimiter, "encoding": options.encoding}
        found["user"] = table.get("columns", {}).get("user", "user")
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _columns(text: str) -> dict[str, str]:
    names = text.split(",")
    if len(names) not in (3, 4):
        raise UsageError(
            f"{len(names)} columns are named", where="--columns", remedy="give user,item,rating[,timestamp]"
        )
    return dict(zip(("user", "item", "rating", "timestamp"), names, strict=False))


def _given_scale(text: str | None) -> list[float]:
    try:
        low, high = (float(end) for end in (text or "").split(","))
    except ValueError:
        raise UsageError(
            "say which ratings people can give", where="--scale", remedy="give lowest,highest, such as 1,5"
        ) from None
    return [low, high]


def _published_scale(published: Path) -> list[float]:
    """The scale a release says it has; a manifest that cannot be read is for the gate to refuse."""
    try:
        low, high = json.loads((published / "manifest.json").read_text(encoding="utf-8"))["rating_scale"]
        return [float(low), float(high)]
    except (OSError, ValueError, TypeError, KeyError):
        return [1.0, 5.0]
