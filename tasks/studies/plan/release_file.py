"""Put values into a release file line by line, so that its comments and its order stay.

What was written is read again: unless it says exactly what it should, nothing is changed.
"""

import copy
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from tasks.errors import UsageError
from tasks.store import write_bytes

HEADER = re.compile(r"^\s*\[([^\[\]]+)\]\s*(#.*)?$")


def write_values(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Write values by keys such as `privacy.k`; return those that differed before."""
    text = path.read_text(encoding="utf-8")
    before = tomllib.loads(text)
    wanted = copy.deepcopy(before)
    differing = {key: value for key, value in values.items() if _set(wanted, key, value)}
    for key, value in differing.items():
        text = _with_value(text, key, value)
    if _parsed(text) != wanted:
        lines = "; ".join(f"{key} = {_literal(value)}" for key, value in differing.items())
        raise UsageError(
            "this file is written in a way that cannot be edited line by line",
            where=str(path),
            remedy=f"write these values yourself: {lines}",
        )
    if differing:
        mode = path.stat().st_mode & 0o777
        write_bytes(path, text.encode())
        path.chmod(mode)
    return differing


def _set(tables: dict[str, Any], key: str, value: Any) -> bool:
    """Set a value; return whether it differs from the one before."""
    *path, name = key.split(".")
    for part in path:
        tables = tables.setdefault(part, {})
    differs = name not in tables or tables[name] != value
    tables[name] = value
    return differs


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _with_value(text: str, key: str, value: Any) -> str:
    table, _, name = key.rpartition(".")
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if _header(line) == table), None)
    if start is None:
        return "\n".join([*lines, "", f"[{table}]", f"{name} = {_literal(value)}", ""])
    stop = next((n for n in range(start + 1, len(lines)) if _header(lines[n]) is not None), len(lines))
    # A value that ends on its line, then perhaps a comment; anything longer fails the comparison afterwards.
    pattern = re.compile(rf"^(\s*{re.escape(name)}\s*=\s*)([^#\s]+(?:\s+[^#\s]+)*)(\s*(?:#.*)?)$")
    for number in range(start + 1, stop):
        if found := pattern.match(lines[number]):
            literal = _literal(value)
            # The comment stays in its column where there is room.
            rest = found[3]
            room = len(rest) - len(rest.lstrip()) + len(found[2]) - len(literal)
            kept = " " * max(2, room) + rest.lstrip() if rest.strip() else ""
            lines[number] = f"{found[1]}{literal}{kept}"
            return "\n".join(lines) + "\n"
    last = max(n for n in range(start, stop) if lines[n].strip() and not lines[n].lstrip().startswith("#"))
    lines.insert(last + 1, f"{name} = {_literal(value)}")
    return "\n".join(lines) + "\n"


def _header(line: str) -> str | None:
    found = HEADER.match(line)
    return found[1].strip() if found else None


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
