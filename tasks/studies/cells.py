"""A reproduced figure: what the paper printed, what we measure, and whether it lies within the bar."""

from typing import Any


def cell(
    table: str,
    row: str,
    column: str,
    ours: float | None,
    *,
    paper: float | None = None,
    other_data: float | None = None,
    at_most: float | None = None,
) -> dict[str, Any]:
    """One cell of `murmur reproduce`. `paper` only where it was printed for exactly this data and definition;
    `other_data` is what the paper printed for its own data, beside ours for orientation only.
    """
    return {
        "table": table,
        "row": row,
        "column": column,
        "paper": paper,
        "paper_on_its_data": paper if paper is not None else other_data,
        "ours": None if ours is None else round(float(ours), 5),
        "tolerance": at_most,
        "within": None if at_most is None or ours is None else bool(ours <= at_most),
    }
