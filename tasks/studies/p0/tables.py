"""Reproduce the tables and figures of [Chang2009], section 7, on one data set.

The paper used Netflix's data; on any other data its figures are shown for orientation and never as a target. The bars
are those of docs/leaks-and-bars.md.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tasks import pipeline
from tasks.config import ReleaseConfig, parse
from tasks.engine import Engine, engine
from tasks.keys import OwnerKey
from tasks.shadow.split import STUDY_PURPOSE
from tasks.store import Store, read_json
from tasks.studies.datasets import detect_format
from tasks.studies.p0 import figures as figures_p0
from tasks.studies.printed_cells import printed_cell
from tasks.studies.study_data import SNAPSHOT, Progress, silent_progress

# Nothing is published here, so no secret is needed; a fixed key gives the same figures on every machine.
KEY = OwnerKey(b"reproduce".ljust(32, b"."))
# docs/leaks-and-bars.md: the largest acceptable loss Δ, all-predicted, at k = 5 and k = 50, and with observed
# ratings kept.
BARS = {"movielens-100k": {5: 0.020, 50: 0.036}, "movielens-1m": {5: 0.022, 50: 0.038}}
BARS_OBSERVED = {5: 0.030, 50: 0.040}
SHARE_OF_RANDOM = 0.30
# [Chang2009], Tables 1 to 3, on Netflix's data.
PAPER_RMSE = {("padded", 5): 0.95970, ("padded", 50): 0.95871, ("simple", 5): 2.36947, ("simple", 50): 2.3771}
PAPER_ORIGINAL = 0.951849
PAPER_SIMILAR = {("padded", 50): 1.00563, ("simple", 50): 1.17525}
PAPER_BEFORE = {"null": 98.84, "1": 0.053, "2": 0.117, "3": 0.334, "4": 0.390, "5": 0.267}
PAPER_AFTER = {"null": 0.0, "1": 0.79, "2": 14.12, "3": 46.71, "4": 33.49, "5": 4.89}


def reproduce(data: Path, *, plots: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Run padded and simple at k = 5 and 50, as in the paper and as we publish; return its tables and figures."""
    kind = detect_format(data)
    settings = [("padded", k, observed) for k in (5, 50) for observed in (True, False)]
    settings += [("simple", k, True) for k in (5, 50)]
    results: dict[tuple[str, int, bool], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="murmur-") as place, engine() as workers:
        store = Store(place)
        given: dict[str, dict] = {}
        for method, k, observed in settings:
            run = _open(_config(kind, data, method, k, observed), store, workers, progress, given)
            given = {"ingest": pipeline.execute("ingest", run)}
            evaluated = pipeline.execute("evaluate", replace(run, purpose=STUDY_PURPOSE))
            results[method, k, observed] = _measure(Path(evaluated["path"]))
        run = _open(_config(kind, data, "padded", 50, False), store, workers, progress, given)
        figures = figures_p0.measure(run, results["padded", 50, False]["ranks"])
    if plots:
        figures_p0.plot(figures, plots)
    netflix = kind == "netflix-prize"
    cells = [
        *_table_1(results, kind),
        *_table_2(results["padded", 5, False], netflix),
        *_table_3(results, netflix),
    ]
    return {"paper": "P0", "dataset": kind, "cells": cells + figures_p0.cells(figures)}


def _config(kind: str, data: Path, method: str, k: int, observed: bool) -> ReleaseConfig:
    name = f"{method}-{k}-{'observed' if observed else 'predicted'}"
    return parse(
        {
            "release": {"name": name},
            "source": {"format": kind, "path": str(data)},
            # With observed ratings kept we follow the paper exactly: no minimum of contributors.
            # Neither phantom raters nor clipped groups: they are defences that the paper does not have.
            "privacy": {
                "method": f"predictive-{method}",
                "k": k,
                "min_contributors": 1 if observed else 3,
                "clip_groups": 1.0,
            },
            "padding": {"keep_observed": observed, "rank": 16, "phantom_raters": 0, "level_only_below": 0},
        },
        "murmur reproduce P0",
    ).alone()


def _open(
    config: ReleaseConfig, store: Store, workers: Engine, progress: Progress | None, given: dict[str, dict]
) -> pipeline.Run:
    run = pipeline.open_run(config, SNAPSHOT, store, workers, progress or silent_progress)
    return replace(run, key=KEY, given=given)


def _measure(directory: Path) -> dict[str, Any]:
    held_out = pq.read_table(directory / "heldout.parquet").to_pandas()
    truth = held_out["truth"].to_numpy()

    def rmse(column: str, nulls: float | None = None) -> float:
        value = held_out[column].to_numpy()
        value = value if nulls is None else np.nan_to_num(value, nan=nulls)
        return float(np.sqrt(np.nanmean((value - truth) ** 2)))

    return {
        "original": rmse("original"),
        "target": rmse("target"),
        "target_nulls_0": rmse("target", 0.0),
        "null_share": float(held_out["target"].isna().mean()),
        "similar": rmse("similar"),
        "random": rmse("random_group"),
        "ranks": pq.read_table(directory / "ranks.parquet").to_pandas(),
        "histogram": read_json(directory / "summary.json")["histogram"],
    }


def _table_1(results: dict[tuple[str, int, bool], dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    netflix = kind == "netflix-prize"

    def printed(value: float) -> dict[str, float]:
        return {"paper": value} if netflix else {"other_data": value}

    cells = [
        printed_cell(
            "1", "Original Data", "RMSE", results["padded", 5, False]["original"], **printed(PAPER_ORIGINAL)
        )
    ]
    for (method, k, observed), found in results.items():
        row = f"{method.capitalize()} Anonymization (k = {k})"
        if method == "simple":
            cells += [
                printed_cell("1", row, "RMSE", found["target_nulls_0"], **printed(PAPER_RMSE[method, k])),
                printed_cell("1", row, "RMSE over non-null cells", found["target"]),
                printed_cell("1", row, "null %", 100 * found["null_share"]),
            ]
            continue
        loss, random_loss = found["target"] - found["original"], found["random"] - found["original"]
        if observed:
            cells += [
                printed_cell("1", row, "RMSE", found["target"], **printed(PAPER_RMSE[method, k])),
                printed_cell("1", row, "Δ RMSE", loss, at_most=BARS_OBSERVED[k]),
            ]
        else:
            row += ", all predicted"
            cells += [
                printed_cell("1", row, "RMSE", found["target"]),
                printed_cell("1", row, "Δ RMSE", loss, at_most=BARS.get(kind, {}).get(k)),
                printed_cell("1", row, "Δ RMSE of random groups", random_loss),
                printed_cell("1", row, "Δ / Δ of random groups", loss / random_loss, at_most=SHARE_OF_RANDOM),
            ]
    return cells


def _table_2(found: dict[str, Any], netflix: bool) -> list[dict[str, Any]]:
    histogram = found["histogram"]
    before = {"null": histogram["null_share"], **_by_rating(histogram["observed_share"])}
    after = {"null": 0.0, **_by_rating(histogram["padded_share"])}
    where = "paper" if netflix else "other_data"
    return [
        printed_cell(
            "2", f"[{'0' if label == 'null' else label}]", column, 100 * share, **{where: printed.get(label)}
        )
        for column, ours, printed in (
            ("Original %", before, PAPER_BEFORE),
            ("After Padding %", after, PAPER_AFTER),
        )
        for label, share in ours.items()
    ]


def _by_rating(shares: list[float]) -> dict[str, float]:
    return {str(rating): share for rating, share in enumerate(shares, start=1)}


def _table_3(results: dict[tuple[str, int, bool], dict[str, Any]], netflix: bool) -> list[dict[str, Any]]:
    where = "paper" if netflix else "other_data"
    chosen = {"padded": ("padded", 50, True), "simple": ("simple", 50, True)}
    cells = [
        printed_cell(
            "3",
            f"{name.capitalize()} Anonymization (k = 50)",
            "RMSE",
            results[key]["similar"],
            **{where: PAPER_SIMILAR[name, 50]},
        )
        for name, key in chosen.items()
    ]
    return [
        *cells,
        printed_cell(
            "3",
            "Padded Anonymization (k = 50), all predicted",
            "RMSE",
            results["padded", 50, False]["similar"],
        ),
    ]
