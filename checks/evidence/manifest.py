"""What a manifest may say: the contract's keys and nothing else, each with a value of its kind.

Whatever stands there freely could carry a source id to the public, so there is no room for it: every text is one of
a few, or has a shape, or (why people are withheld) is short and free of ids.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from tasks.config.privacy import MethodName
from tasks.config.release import Release as ReleaseSettings

LONGEST_REASON = 200  # characters
FILES = ("groups.parquet", "members.parquet", "items.parquet", "checks.json", "report.html", "README.md")
CHECK_KEYS = {"name", "passed", "observed", "threshold", "ci_low", "ci_high", "n", "severity", "detail"}

Problem = tuple[int, str]


def problems(manifest: dict[str, Any]) -> Iterator[Problem]:
    """Everything in the manifest that the contract does not name or that is not of its kind, counted and told."""
    # Unknown keys are counted and not quoted: one may be an id itself.
    yield len(manifest.keys() - _KINDS.keys()), "keys of the manifest that the contract does not name"
    scores = manifest["unit"] == "z-score"
    fitting = manifest["method"] == "perturbation" and manifest["rating_encoding"] == "float32"
    yield int(scores and not fitting), "z-scores that are not numbers of a perturbation"
    odd = [key for key, fits in _KINDS.items() if key in manifest and not fits(manifest[key])]
    yield len(odd), f"values of the manifest that are not as in the contract ({', '.join(odd)})"


def ids_in(text: str, ids: pa.StringArray) -> int:
    """How many of the ids stand in the text, as words of their own, whatever their case."""
    # An id may have several words, or begin or end with a sign: every stretch that cuts no word in two is looked up.
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
    """Exactly these keys, each with a value of its kind."""
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


def _release_name(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(ReleaseSettings(name=value))
    except ValueError:
        return False


def _digests(value: object) -> bool:
    """Only files a release has: any other could carry anything, digest or not."""
    return isinstance(value, dict) and all(
        name in FILES and _text("[0-9a-f]{64}")(digest) for name, digest in value.items()
    )


def _verdicts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(c, dict) and c.keys() == CHECK_KEYS for c in value)


def _reason(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_REASON


_KINDS: dict[str, Callable[[Any], bool]] = {
    "schema_version": _one_of(1),
    "release": _release_name,
    "snapshot": _date,
    "method": _one_of(*get_args(MethodName)),
    "privacy": _object(k=_whole, l=_whole, b=_whole, min_contributors=_whole),
    "counts": _object(users=_whole, items=_whole, groups=_whole, ratings=_whole),
    "rating_scale": lambda value: isinstance(value, list) and len(value) == 2 and all(map(_number, value)),
    "rating_step": lambda value: value is None or _number(value),
    "rating_encoding": _one_of("uint8", "uint16", "float32"),
    "unit": _one_of("rating", "z-score"),
    "series": _one_of("checked", "unchecked"),
    "withheld": _object(users=_whole, items=_whole, why=_reason),
    "files": _digests,
    "checks": _verdicts,
    "code_version": _text(r"[0-9A-Za-z.+-]{1,64}"),
    "created_at": _moment,
}
