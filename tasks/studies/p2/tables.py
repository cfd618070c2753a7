"""Reproduce the tables and figures of [Frankowski2006] on one data set.

The paper's 133 people and their forum posts are not public. Mentions are simulated for the top decile of raters
(checks/linkage/mentions.py), several times for each; the paper's figures, from MovieLens as it was in 2006, stand
beside ours as figures for other data. Rates are in per cent.
"""

from pathlib import Path
from typing import Any

from tasks.engine import engine
from tasks.studies.datasets import detect_format
from tasks.studies.p2 import figures as figures_p2
from tasks.studies.p2.trials import (
    ATTACKS,
    FIRST_SAFE,
    KEPT,
    LEVELS,
    ORDER,
    POPULAR,
    RARE,
    STEPS,
    Study,
    Table,
    measure,
)
from tasks.studies.printed_cells import printed_cell
from tasks.studies.study_data import Progress


def _at_levels(table: str, row: str, *rates: float) -> dict[tuple[str, str, str], float]:
    return {(table, row, f"k={k}"): rate for k, rate in zip(LEVELS, rates, strict=False)}


# The values that the paper printed for its own data.
PAPER = {
    **_at_levels("fig4", "set-intersection", 7, 12, 14, 23),
    **_at_levels("fig4", "tf-idf", 20, 32, 35, 50),
    **_at_levels("fig4", "scoring", 31, 44, 52, 57),
    **_at_levels("fig4", "fuzzy-rating", 47, 50, 53, 68),
    **_at_levels("fig4", "exact-rating", 59, 68, 72, 81),
    **_at_levels("4.3", "scoring, heaviest raters kept", 22),
    **_at_levels("4.3", "scoring, flat sub-score", 20),
    ("fig3", "all", "1-identified"): 7,
    ("fig3", "all", "no one possible"): 31,
    ("fig3", "all", "misdirected"): 20,
    ("fig5", "scoring", "8+ mentions"): 60,
    ("4.5", "scoring", "10-identified of the 100-identified"): 91,
    ("4.5", "scoring", "1-identified of the 100-identified"): 54,
    ("fig6", FIRST_SAFE, "items dropped"): 88,
    ("fig7", FIRST_SAFE, "ratings dropped"): 28,
    ("fig9", POPULAR, "0 added"): 31,
    ("fig9", POPULAR, "5 added"): 13,
}
# docs/leaks-and-bars.md, required on MovieLens 1M. "Rare items do nothing" is read as: 90 % of the rate stays.
BARS: dict[tuple[str, str, str], dict[str, float]] = {
    **{("fig4", name, "k=1"): {"tolerance": 10.0} for name in ATTACKS},
    ("fig4", ORDER, STEPS): {"at_least": 3.0},
    ("fig9", POPULAR, KEPT): {"at_most": 0.5},
    ("fig9", RARE, KEPT): {"at_least": 0.9},
}


def reproduce(data: Path, *, plots: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Measure every table and figure; `plots` is a directory for the figures as SVG."""
    kind = detect_format(data)
    with engine() as workers:
        study = Study.open(data, workers, progress=progress)
        tables = measure(study)
    if plots:
        figures_p2.plot(tables, plots)
    people = len(study.known) // study.draws
    return {
        "paper": "P2",
        "dataset": kind,
        "people": people,
        "draws": study.draws,
        "cells": cells(tables, BARS if kind == "movielens-1m" else {}),
    }


def cells(
    tables: dict[str, Table], bars: dict[tuple[str, str, str], dict[str, float]]
) -> list[dict[str, Any]]:
    """Return the tables as cells of `murmur reproduce`."""
    return [
        printed_cell(table, row, column, ours, other_data=PAPER.get(place), **bars.get(place, {}))
        for table, rows in tables.items()
        for row, columns in rows.items()
        for column, ours in columns.items()
        for place in [(table, row, column)]
    ]
