"""Make JSON and TOML that parsers stumble over: by replacing values of a document."""

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.hostile.made_parquet import bytes_changed

VALUES: tuple[str, ...] = (
    "null", "true", "-1", "0", "1e999", "NaN", "-Infinity", "1e-320", "9" * 400, "9" * 5000, "[]", "{}", '""', "0.1",
    '"\\ud800"', '"\\u0000"', '"../../etc/passwd"', '"/proc/kcore"', f'"{"a" * 300}"', '"\\u001b[2J"', '"<script>"',
    "[" * 2000 + "]" * 2000, "[" * 200_000, '{"a":' * 2000 + "1" + "}" * 2000, '{"k":1,"k":2}', "2147483648",
    "[1.0, 5.0]", "[5, 1]", "[-1e308, 1e308]", "[1, 1.0000000001]", '"uint8"', '"float32"', '"z-score"', '"uint16"',
    '"perturbation"', '"dp-synthetic"', '"predictive-simple"', '"checked"', '{"epsilon": 1}', "5e-324", "1.5",
)  # fmt: skip
MARK = "⟨here⟩"


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the document with one or two values or keys replaced."""
    for _ in range(rng.randint(1, 2)):
        try:
            document = json.loads(data)
            places = list(_places(document))
            owner, key = rng.choice(places)
        except (ValueError, IndexError, RecursionError):
            return bytes_changed(data, rng)
        way = rng.random()
        if way < 0.1 and isinstance(owner, dict):
            del owner[key]
            data = json.dumps(document).encode()
            continue
        if way < 0.2 and isinstance(owner, dict):
            owner[rng.choice(("x", "\x1b[2J", "\0", "a" * 5000, "../x", "groups.parquet"))] = owner.pop(key)
            data = json.dumps(document).encode()
            continue
        owner[key] = MARK
        data = (
            json.dumps(document, ensure_ascii=False)
            .replace(f'"{MARK}"', rng.choice(VALUES), 1)
            .encode("utf-8", "surrogatepass")
        )
    return data


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in (
        list(value) if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    ):
        yield value, key
        yield from _places(value[key])
