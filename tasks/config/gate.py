"""[gate]: thresholds of the checks that decide on publication, by the check's name.

A check is one file under checks/ and is called after it (`link_existence.py` → `link-existence`), so a new
check can be tuned at once. A threshold can be moved; no check can be switched off.
"""

from importlib.util import find_spec
from pathlib import Path

CHECK_PACKAGES = ("privacy", "attacks", "utility")
# Thresholds that say how many people or groups there must be at least; all others are the largest share allowed.
AT_LEAST = ("diversity", "k-anonymity")


def check_names(packages: tuple[str, ...] = CHECK_PACKAGES) -> list[str]:
    """Names of all checks, from their files; importing them here would load numpy into the DAG parser."""
    spec = find_spec("checks")
    roots = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    files = (f for root in roots for package in packages for f in (root / package).glob("[a-z]*.py"))
    return sorted(file.stem.replace("_", "-") for file in files)


def validate_thresholds(gate: dict[str, float]) -> dict[str, float]:
    """Refuse thresholds of checks that do not exist and values that switch a check off."""
    known = check_names()
    for name, threshold in gate.items():
        if name not in known:
            raise ValueError(f"there is no check '{name}'; the checks are: {', '.join(known)}")
        if name in AT_LEAST:
            if threshold < 1 or threshold != int(threshold):
                raise ValueError(
                    f"threshold of '{name}' is {threshold}; use a whole number of at least 1: so many are demanded "
                    "(where the release promises more, that counts)"
                )
        elif not 0 <= threshold < 1:
            raise ValueError(
                f"threshold of '{name}' is {threshold}; use a share from 0 to below 1 (no check can be switched off)"
            )
    return gate
