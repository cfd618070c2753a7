"""Say figures in words and units: no snake_case, no exponents, three significant digits."""

from typing import Any

LABELS = {
    "cpu_seconds": "CPU time",
    "memory_bytes": "memory",
    "peak_rss_bytes": "most memory at once",
    "bytes": "size",
    "scale": "rating scale",
    "k": "k (people who share a profile)",
    "l": "l (groups that hold an item)",
    "b": "b (items an attacker knows)",
    "min_contributors": "real ratings behind a cell",
    "original_rmse": "RMSE of the model without groups",
    "original_mae": "MAE of the model without groups",
    "target_deviation_rmse": "RMSE of the release, own group",
    "similar_user_rmse": "RMSE of the release, nearest profile",
    "random_group_rmse": "RMSE of random groups",
    "item_mean_rmse": "RMSE of the items' means",
    "null_share": "share of values not published",
    "self_rank_1_share": "own group is the nearest for",
    "heldout": "ratings held out to measure this",
    "ratings": "values",
    "warnings": "to note",
    "seconds": "CPU time",
}
# What `counts` of a release counts: a group's profile has a value for each of its items.
COUNTS = {"ratings": "values published (groups × items)"}
SHARES = ("_share", "share_of_eligible")
UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def name_of(key: str, table: str = "") -> str:
    """Return a key of an answer in words; `table` is the key of the object that it is in."""
    if table == "counts" and key in COUNTS:
        return COUNTS[key]
    if table == "source" and key == "ratings":
        return "ratings"
    return LABELS.get(key, key.replace("_", " "))


def value_of(key: str, value: Any, table: str = "") -> str:
    """Return a value in words, in the unit that its key implies."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key.endswith("bytes"):
            return size(value)
        if key.endswith("seconds") or table == "seconds":
            return duration(value)
        if key.endswith(SHARES):
            return percent(value)
    return text(value)


def text(value: Any) -> str:
    """Return any value of an answer as text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return ", ".join(f"{name_of(key)} {value_of(key, part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return str(value)


def number(value: float) -> str:
    """Return a number with three significant digits, as a person writes it."""
    if value == 0:
        return "0"
    if abs(value) < 0.0005:
        return "below 0.001" if value > 0 else "above −0.001"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def percent(share: float) -> str:
    """Return a share in per cent with up to three significant digits."""
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{float(f'{100 * share:.3g}'):g} %"


def size(count: float) -> str:
    """Return a number of bytes in the largest unit that is not below one."""
    for unit, name in UNITS:
        if count >= unit:
            return f"{float(f'{count / unit:.2g}'):g} {name}"
    return f"{count:,.0f} bytes"


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < 0.05:
        return "under 0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{float(f'{seconds / 3600:.1f}'):g} h"


def counted(amount: int, noun: str) -> str:
    """Return a number with its noun: 1 trial, 2 trials."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"
