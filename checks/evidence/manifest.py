"""Test what a manifest states: only the keys of docs/release-format.md, each with a value of its kind.

Free text could carry a source id to the public, so there is none: every text is one of a few, or has a fixed shape, or
(why people are withheld) is short and free of ids.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checks.evidence.method_rules import rules_of
from checks.evidence.promises import promises_epsilon, promises_k
from checks.result import NO_RECORDS, REDACTED
from tasks.config.privacy import method_names
from tasks.config.release import Release as ReleaseSettings

LONGEST_REASON = 200  # characters
FILES = ("groups.parquet", "members.parquet", "items.parquet", "checks.json", "report.html", "README.md")
OPTIONAL_FILES = ("support.parquet", "croissant.json")  # the first releases have no croissant.json
FIRST_CHECK_KEYS = {"name", "passed", "observed", "threshold", "ci_low", "ci_high", "n", "severity", "detail"}
CHECK_KEYS = FIRST_CHECK_KEYS | {"applicable", "void"}  # releases published before these two keys stay valid

Problem = tuple[int, str]


def problems(manifest: dict[str, Any]) -> Iterator[Problem]:
    """Yield, with counts, what in the manifest is not in docs/release-format.md or not of the kind it has there."""
    # Unknown keys are counted and not quoted: one may be an id itself.
    yield len(manifest.keys() - _KINDS.keys()), "keys of the manifest that are not in docs/release-format.md"
    scores = manifest["unit"] == "z-score"
    allowed = rules_of(manifest["method"]).z_scores and manifest["rating_encoding"] == "float32"
    yield (
        int(scores and not allowed),
        "z-scores of a method that may not publish them, or not as float32 numbers",
    )
    if rules_of(manifest["method"]).is_synthetic:
        yield from _measured(manifest)
    odd = [key for key, fits in _KINDS.items() if key in manifest and not fits(manifest[key])]
    yield len(odd), f"values of the manifest that do not follow docs/release-format.md ({', '.join(odd)})"


def _measured(manifest: dict[str, Any]) -> Iterator[Problem]:
    """Yield figures beside the mechanism's output: each would spend from the privacy budget, and none is paid for."""
    privacy, counts, withheld = manifest["privacy"], manifest["counts"], manifest["withheld"]
    yield int(not promises_epsilon(privacy)), "promises that are not those of synthetic rows"
    yield int(counts.get("users") != 0), "counts of people in a release that is about nobody"
    yield (
        int((withheld.get("users"), withheld.get("items"), withheld.get("why")) != (0, 0, "")),
        "counts of withheld people or items, which only the data can show",
    )
    yield int(manifest["series"] != "unchecked" or "as_of" in manifest), "claims about a series of groups"
    lines = manifest.get("checks", [])
    lines = [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []
    kept = {"observed": None, "ci_low": None, "ci_high": None, "n": 0}
    open_lines = [line for line in lines if any(line.get(key) != value for key, value in kept.items())]
    yield len(open_lines), "verdicts with figures measured on the data"
    words = [line for line in lines if line.get("detail") not in (NO_RECORDS, REDACTED)]
    yield len(words), "verdicts with other words than the fixed ones"


def ids_in(text: str, ids: pa.StringArray) -> int:
    """Count the ids that occur in the text as whole words, whatever their case."""
    # An id may have several words, or begin or end with punctuation: every stretch of whole words is looked up.
    cuts = [at for at in range(len(text) + 1) if not re.fullmatch(r"\w\w", text[max(at - 1, 0) : at + 1])]
    stretches = {text[a:b].lower() for a in cuts for b in cuts if a < b}
    known = pc.is_in(pc.utf8_lower(ids), value_set=pa.array(sorted(stretches), pa.string()))
    return int(pc.sum(known).as_py() or 0)


def _whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _number(value: object) -> bool:
    return type(value) in (int, float)


def _one_of(*choices: object) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str | int) and value in choices


def _text(pattern: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _object(**kinds: Callable[[Any], bool]) -> Callable[[object], bool]:
    """Return a test for an object with exactly these keys, each with a value of its kind."""
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == kinds.keys()
        and all(fits(value[key]) for key, fits in kinds.items())
    )


def _date(value: object) -> bool:
    return _reads(date.fromisoformat, value) and len(str(value)) == len("2026-01-01")


def _moment(value: object) -> bool:
    return _reads(datetime.fromisoformat, value)


def _reads(parse: Callable[[str], object], value: object) -> bool:
    try:
        return isinstance(value, str) and bool(parse(value))
    except ValueError:
        return False


def _method_name(value: object) -> bool:
    return isinstance(value, str) and value in method_names()


def _release_name(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(ReleaseSettings(name=value))
    except ValueError:
        return False


def _digests(value: object) -> bool:
    """Test that only files of a release are listed: any other could carry anything, with a digest or without."""
    return isinstance(value, dict) and all(
        name in (*FILES, *OPTIONAL_FILES) and _text("[0-9a-f]{64}")(digest) for name, digest in value.items()
    )


def _verdicts(value: object) -> bool:
    """Test for lines of checks.json: all with the keys of today, or all with those of the first releases."""
    return (
        isinstance(value, list)
        and all(isinstance(line, dict) for line in value)
        and any(all(line.keys() == keys for line in value) for keys in (CHECK_KEYS, FIRST_CHECK_KEYS))
        and all(_consistent(line) for line in value)
    )


def _consistent(line: dict[str, Any]) -> bool:
    """Test that a line's facts are truth values, that a void check failed, and that a failed one was applicable."""
    passed, void, applicable = line["passed"], line.get("void", False), line.get("applicable", True)
    facts = all(isinstance(fact, bool) for fact in (passed, void, applicable))
    return facts and not (void and passed) and (applicable or passed)


def _reason(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_REASON


_KINDS: dict[str, Callable[[Any], bool]] = {
    "schema_version": _one_of(1),
    "release": _release_name,
    "snapshot": _date,
    "method": _method_name,
    "privacy": lambda value: promises_k(value) or promises_epsilon(value),
    "counts": _object(users=_whole, items=_whole, groups=_whole, ratings=_whole),
    "rating_scale": lambda value: isinstance(value, list) and len(value) == 2 and all(map(_number, value)),
    "rating_step": lambda value: value is None or _number(value),
    "rating_encoding": _one_of("uint8", "uint16", "float32"),
    "unit": _one_of("rating", "z-score"),
    "series": _one_of("checked", "unchecked"),
    "as_of": lambda value: value is None or _date(value),
    "withheld": _object(users=_whole, items=_whole, why=_reason),
    "revision": _object(number=_whole, replaces=_text("[0-9a-f]{64}"), groups_left_out=_whole),
    "files": _digests,
    "checks": _verdicts,
    "code_version": _text(r"[0-9A-Za-z.+-]{1,64}"),
    "created_at": _moment,
}
