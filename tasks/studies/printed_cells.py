"""Represent a reproduced figure: the value the paper printed, ours, and whether it lies within the bar."""

from typing import Any


def printed_cell(
    table: str,
    row: str,
    column: str,
    ours: float | None,
    *,
    paper: float | None = None,
    other_data: float | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Return one cell of `murmur reproduce`.

    `paper` is given only where the paper printed the value for exactly this data set and definition; `other_data` is
    the paper's value for its own data, shown beside ours for orientation. A bar, where docs/leaks-and-bars.md sets
    one, is a limit (`at_most`, `at_least`) or the allowed distance from the paper's value (`tolerance`, in the same
    unit).
    """
    printed = paper if paper is not None else other_data
    within = None
    if ours is not None:
        if at_most is not None:
            within = bool(ours <= at_most)
        elif at_least is not None:
            within = bool(ours >= at_least)
        elif tolerance is not None and printed is not None:
            within = bool(abs(ours - printed) <= tolerance)
    bars = [bar for bar in (at_most, at_least, tolerance) if bar is not None]
    return {
        "table": table,
        "row": row,
        "column": column,
        "paper": paper,
        "paper_on_its_data": printed,
        "ours": None if ours is None else round(float(ours), 5),
        "tolerance": bars[0] if bars else None,
        "within": within,
    }
