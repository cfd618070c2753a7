"""[gate]: thresholds of the checks that decide on publication, by the check's name.

A check is one file under checks/ and has its name (`link_existence.py` → `link-existence`), so the threshold
of a new check can be set without further edits, unless it is a least number: then its name is added to `AT_LEAST`. A
threshold can be changed; no check can be switched off.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CHECK_PACKAGES = ("privacy", "attacks", "series", "utility")
# Thresholds that are a least number of people or groups; all others are the largest share allowed.
AT_LEAST = ("cohorts", "diversity", "k-anonymity", "series")


def check_names(packages: tuple[str, ...] = CHECK_PACKAGES) -> list[str]:
    """Return the names of all checks, from their files; an import would load numpy into the DAG parser."""
    return [file.stem.replace("_", "-") for file in _files(packages)]


def check_summaries(packages: tuple[str, ...] = CHECK_PACKAGES) -> dict[str, str]:
    """Return one line about every check, by its name: `summary` of the `About` in the check's file, read from the
    syntax tree."""
    return {file.stem.replace("_", "-"): _summary(file) for file in _files(packages)}


def _files(packages: tuple[str, ...]) -> list[Path]:
    spec = find_spec("checks")
    roots = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    files = [f for root in roots for package in packages for f in (root / package).glob("[a-z]*.py")]
    return sorted(files, key=lambda file: file.stem.replace("_", "-"))


@cache
def _summary(file: Path) -> str:
    """Return the literal `summary` of the file's `About`; empty where it has none (the registry refuses that)."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "About":
            for given in node.keywords:
                if given.arg == "summary" and isinstance(given.value, ast.Constant):
                    return str(given.value.value)
    return ""


def validate_thresholds(gate: dict[str, float]) -> dict[str, float]:
    """Refuse thresholds of checks that do not exist and values that switch a check off."""
    known = check_names()
    for name, threshold in gate.items():
        if name not in known:
            raise ValueError(f"there is no check '{name}'; the checks are: {', '.join(known)}")
        if name in AT_LEAST:
            if threshold < 1 or threshold != int(threshold):
                raise ValueError(
                    f"threshold of '{name}' is {threshold}; use a whole number of at least 1: the least number "
                    "required (where the release promises more, the promise applies)"
                )
        elif not 0 <= threshold < 1:
            raise ValueError(
                f"threshold of '{name}' is {threshold}; use a share from 0 to below 1 (no check can be switched off)"
            )
    return gate
