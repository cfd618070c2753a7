"""Parse `murmur compare --methods`: methods with optional settings, such as `microaggregation:k=20`."""

import tomllib
from dataclasses import dataclass
from typing import Any

from tasks import methods
from tasks.config import Budget, ReleaseConfig, parse
from tasks.errors import UsageError

BUDGET = "privacy.budget"


@dataclass(frozen=True)
class Entry:
    """Represent one method with its settings: what was written, and the release it stands for."""

    text: str
    method: str
    settings: dict[str, Any]
    config: ReleaseConfig


def parse_entries(text: str, base: ReleaseConfig) -> list[Entry]:
    """Return every entry, in the order given; what an entry does not set is as in `base`."""
    entries = [_entry(part.strip(), base) for part in text.split(",") if part.strip()]
    if not entries:
        raise UsageError(
            "nothing to compare", where="--methods", remedy="name methods, such as predictive-padded"
        )
    seen: dict[str, str] = {}
    for entry in entries:
        twin = seen.setdefault(entry.config.model_dump_json(), entry.text)
        if twin is not entry.text:
            raise UsageError(
                f"'{twin}' and '{entry.text}' are the same settings",
                where="--methods",
                remedy="leave one of them out",
            )
    return entries


def _entry(text: str, base: ReleaseConfig) -> Entry:
    method, *parts = text.split(":")
    where = f"--methods {text}"
    available = methods.registered()
    if method not in available:
        raise UsageError(
            f"there is no method '{method}'",
            where=where,
            remedy=f"use one of: {', '.join(sorted(available))}",
        )
    # Only what the release file sets: a default need not suit this method. What the method refuses is left out.
    tables = methods.without_incompatible(base.model_dump(exclude_unset=True), available[method])
    tables.setdefault("privacy", {})["method"] = method
    settings: dict[str, Any] = {}
    places: set[tuple[str, str]] = set()
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(
                f"'{part}' is not a setting",
                where=where,
                remedy="write key=value, several with : between them",
            )
        budget = (BUDGET,) if available[method].unit == "synthetic" else ()
        table, name = place = _place(key, ("privacy", *budget, *available[method].tables), where)
        if place in places:  # also under another name: k is privacy.k
            raise UsageError(f"'{table}.{name}' is set twice", where=where, remedy="set it once")
        places.add(place)
        settings[key] = _table(tables, table)[name] = _value(value)
    return Entry(text, method, settings, parse(tables, where).alone())


def _place(key: str, allowed: tuple[str, ...], where: str) -> tuple[str, str]:
    """Return the table and the key that a setting names: `k`, or `padding.iterations` where two tables have the key."""
    known = {table: _keys(table) for table in allowed}
    table, dot, name = key.rpartition(".")
    found = [(one, name) for one, keys in known.items() if name in keys and (not dot or one == table)]
    if not found:
        listed = "; ".join(f"[{one}] {', '.join(keys)}" for one, keys in known.items())
        raise UsageError(f"there is no setting '{key}'", where=where, remedy=f"use one of: {listed}")
    if len(found) > 1:
        either = " or ".join(f"{one}.{name}" for one, _ in found)
        raise UsageError(f"'{key}' could be {either}", where=where, remedy="write which of them")
    return found[0]


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table of the release file, made where it is missing; [privacy.budget] is inside [privacy]."""
    found: dict[str, Any] = tables
    for part in name.split("."):
        if found.get(part) is None:
            found[part] = {}
        found = found[part]
    return found


def _keys(table: str) -> list[str]:
    """Return the keys of a table that an entry can set; the method is named already."""
    kind: Any = Budget if table == BUDGET else ReleaseConfig.model_fields[table].annotation
    return [key for key in kind.model_fields if key not in ("method", "budget")]


def _value(text: str) -> Any:
    """Return a number or a truth value as in a release file, any other text unchanged."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text
