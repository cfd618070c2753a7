"""Test what a manifest promises: k, l, b and min_contributors to people in groups, or epsilon to everybody."""

import math

PERIODS = ("release", "year", "population")


def promises_k(privacy: object) -> bool:
    """Test for exactly the promises of a release about people, as whole numbers."""
    names = {"k", "l", "b", "min_contributors"}
    return (
        isinstance(privacy, dict)
        and privacy.keys() == names
        and all(type(privacy[name]) is int and privacy[name] >= 0 for name in names)
    )


def promises_epsilon(privacy: object) -> bool:
    """Test for exactly the promises of synthetic rows: what this release spends, and the budget it is paid from."""
    if not isinstance(privacy, dict) or privacy.keys() != {"epsilon", "delta", "rho", "failure", "budget"}:
        return False
    budget = privacy["budget"]
    return (
        all(_positive(privacy[name]) for name in ("epsilon", "delta", "rho"))
        and (privacy["failure"] == 0 or _positive(privacy["failure"]))
        and isinstance(budget, dict)
        and budget.keys() == {"epsilon", "delta", "per", "releases"}
        and all(_positive(budget[name]) for name in ("epsilon", "delta"))
        and budget["per"] in PERIODS
        and type(budget["releases"]) is int
        and budget["releases"] >= 1
    )


def _positive(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    )
