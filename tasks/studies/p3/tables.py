"""Reproduce the tables and figures of [Casino2015] on MovieLens 100K or on Jester.

MDAV is deterministic; noise and splits of items are drawn several times (the paper: 50 times), `repeats` in the
answer. The paper used all three files of Jester, ours is the first: its figures stand beside ours as those of other
data. The bars are those of docs/leaks-and-bars.md.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tasks.engine import Engine
from tasks.studies.datasets import require_format
from tasks.studies.p3 import figures as figures_p3
from tasks.studies.p3.trials import CLIPPED, UNCLIPPED, Measures, Setting, run_held_out_trial, run_trial
from tasks.studies.printed_cells import printed_cell
from tasks.studies.study_data import Progress, ingested, silent_progress, study_config

KS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 25, 50, 75, 100, 125, 150)
SIGMAS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 10, 20, 40, 50)
GAMMAS = (0.2, 1.1)  # what V-MDAV's authors use for scattered and for clustered records
# Table 1 prints 15 columns under 14 values of k. The text gives k = 150 an SSE of 138,650, the last column's 139; so
# a k between 100 and 150 is missing, and k = 125 is our guess: shown for orientation, without a bar.
UNPRINTED_K = 125
MOST_AT_SMALL_K, SMALL_K = 1.1, 10  # points of DR
MOST_AT_LARGE_K = 0.4
SSE_SHARE = 0.015
MAE_RANGE = (0.82, 0.91)  # MovieLens 100K, MDAV, k = 10
WORSE_BY = 0.15  # GNA at the same DR
STANDARD_ERRORS = 3  # by which DR may rise with σ by chance

Found = dict[Setting, dict[str, Measures]]


@dataclass(frozen=True)
class DataSet:
    """Hold the values the paper printed for one data set (Tables 1 to 3), and how often draws are repeated here."""

    unit: float  # of SSE
    repeats: int
    variable_ks: tuple[int, ...]  # V-MDAV's
    sse: tuple[float, ...]
    dr: tuple[float, ...]
    gna_sse: tuple[float, ...]
    gna_dr: tuple[float, ...]
    compared: tuple[Setting, Setting]
    mae: tuple[float, float]
    percent: tuple[float, float]
    exactly: bool  # whether this is exactly the paper's data


DATA_SETS = {
    "movielens-100k": DataSet(
        unit=1e3,
        repeats=10,
        variable_ks=KS,
        sse=(64, 87, 99, 105, 110, 114, 117, 119, 120, 130, 134, 136, 136, 138, 139),
        dr=(40.82, 26.51, 19.93, 15.90, 12.19, 12.19, 9.65, 7.95, 7.21, 2.33, 0.63, 0.21, 0.21, 0.10, 0.10),
        gna_sse=(
            246, 248, 257, 275, 302, 336, 376, 418, 509, 592, 663, 727, 830, 1078, 1221, 1294, 1339,
        ),
        gna_dr=(
            100, 100, 98.51, 89.28, 68.50, 50.58, 44.53, 27.99, 18.76, 10.49, 8.58, 7.21, 4.24, 1.40, 0.42, 0.31, 0.10,
        ),
        compared=(Setting("MDAV", 10), Setting("GNA", 4)),
        mae=(0.89, 1.08),
        percent=(22.25, 27),
        exactly=True,
    ),
    "jester": DataSet(
        unit=1e6,
        repeats=2,  # 25,000 people each: the mean over them is known as well as over ten draws of 943
        variable_ks=(5, 10, 25, 50, 100),
        sse=(25, 37, 44, 48, 52, 54, 57, 58, 60, 69, 73, 75, 76, 77, 78),
        dr=(
            47.455, 30.577, 22.173, 17.121, 13.729, 11.331, 9.450, 8.000, 6.800, 1.570, 0.513, 0.303, 0.242, 0.147,
            0.128,
        ),
        gna_sse=(6, 25, 55, 93, 136, 181, 226, 268, 342, 404, 454, 495, 558, 698, 774, 813, 821),
        gna_dr=(
            99.873, 95.298, 78.270, 58.528, 42.056, 30.221, 22.030, 15.759, 8.127, 4.193, 2.255, 1.301, 0.463, 0.036,
            0.006, 0.001, 0,
        ),
        compared=(Setting("MDAV", 9), Setting("GNA", 2.5)),
        mae=(2.91, 6.50),
        percent=(14.55, 32.5),
        exactly=False,
    ),
}  # fmt: skip


def reproduce(data: Path, *, plots: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Protect the data in every way the paper did; return its tables and figures."""
    kind = require_format(data, DATA_SETS, "[Casino2015]")
    config, report = study_config(kind, data, "murmur reproduce P3"), progress or silent_progress
    data_set = DATA_SETS[kind]
    with ingested(config, report) as (ingest, workers):
        study = Study(Path(ingest["path"]), config.source.scale, data_set, workers, report)
        found = study.measure()
        held_out = study.held_out(found)
    if plots:
        figures_p3.plot(found, plots, unit=data_set.unit)
    people = int(ingest["counts"]["users"])
    cells = [
        *table_1(found, data_set),
        *table_2(found, data_set, people),
        *table_3(found, held_out, data_set, config.source.scale),
        *figure_5(found),
    ]
    return {"paper": "P3", "dataset": kind, "repeats": data_set.repeats, "cells": cells}


@dataclass(frozen=True)
class Study:
    """Hold where the ratings are, the paper's settings for them, and the progress callback."""

    ingest: Path
    scale: tuple[float, float]
    data_set: DataSet
    workers: Engine
    progress: Progress
    ks: tuple[int, ...] = KS
    sigmas: tuple[float, ...] = SIGMAS

    def measure(self) -> Found:
        """Measure everything the tables and figures need for every setting, as means over the repeats."""
        settings = [
            *(Setting("GNA", sigma) for sigma in self.sigmas),
            *(Setting("MDAV", k) for k in self.ks),
            *(Setting("V-MDAV", k, gamma) for gamma in GAMMAS for k in self.data_set.variable_ks),
        ]
        trials = [(setting, seeds) for setting in settings for seeds in self._draws(setting)]
        results = self._map("protected", run_trial, trials)
        found: dict[Setting, list[dict[str, Measures]]] = {setting: [] for setting in settings}
        for (setting, _), result in zip(trials, results, strict=True):
            found[setting].append(result)
        return {setting: _mean(draws) for setting, draws in found.items()}

    def held_out(self, found: Found) -> dict[Setting, float]:
        """Measure the MAE of Table 3's settings on ratings hidden beforehand."""
        settings = [*self.data_set.compared, setting_of_same_risk(found, self.data_set.compared[0])]
        trials = [(setting, seed) for setting in settings for seed in range(self.data_set.repeats)]
        errors = np.array(self._map("held out", run_held_out_trial, trials)).reshape(len(settings), -1)
        return dict(zip(settings, errors.mean(axis=1).tolist(), strict=True))

    def _draws(self, setting: Setting) -> list[tuple[int, ...]]:
        """Return the seeds of each trial: noise is drawn again for every one, groups are formed once."""
        seeds = tuple(range(self.data_set.repeats))
        return [(seed,) for seed in seeds] if setting.method == "GNA" else [seeds]

    def _map(self, what: str, function: Callable[..., Any], trials: list[Any]) -> list[Any]:
        progress = functools.partial(self.progress, what)
        return self.workers.map(function, trials, progress=progress, ingest=self.ingest, scale=self.scale)


def setting_of_same_risk(found: Found, setting: Setting) -> Setting:
    """Return the amount of noise, clipped, whose DR is nearest to a setting's."""
    risk = found[setting][CLIPPED]["DR %"]
    noisy = [other for other in found if other.method == "GNA"]
    return min(noisy, key=lambda other: abs(found[other][CLIPPED]["DR %"] - risk))


def table_1(found: Found, data_set: DataSet) -> list[dict[str, Any]]:
    """Return SSE and DR of microaggregation."""
    cells = []
    printed = dict(zip(KS, zip(data_set.sse, data_set.dr, strict=True), strict=True))
    for setting, measured in found.items():
        if setting.method == "GNA":
            continue
        ours = measured[CLIPPED]
        if setting.method == "V-MDAV":
            bars: dict[str, dict[str, float | None]] = {"SSE": {}, "DR %": {}}
        else:
            bars = _bars(int(setting.amount), *printed[int(setting.amount)], data_set)
        cells += [
            printed_cell("1", setting.row, "SSE", ours["SSE"] / data_set.unit, **bars["SSE"]),
            printed_cell("1", setting.row, "DR %", ours["DR %"], **bars["DR %"]),
            printed_cell("1", setting.row, "DR %, from protected to original", ours["DR %, literal"]),
            printed_cell("1", setting.row, "mean group size", ours["mean size"]),
        ]
    return cells


def _bars(k: int, sse: float, dr: float, data_set: DataSet) -> dict[str, dict[str, float | None]]:
    """Return the printed values and the allowed distances: SSE only on the same data, DR on Jester's first file too."""
    if k == UNPRINTED_K:
        return {"SSE": {"other_data": sse}, "DR %": {"other_data": dr}}
    points = MOST_AT_SMALL_K if k <= SMALL_K else MOST_AT_LARGE_K
    where = "paper" if data_set.exactly else "other_data"
    return {
        "SSE": {where: sse, "tolerance": SSE_SHARE * sse if data_set.exactly else None},
        "DR %": {where: dr, "tolerance": points},
    }


def table_2(found: Found, data_set: DataSet, people: int) -> list[dict[str, Any]]:
    """Return SSE and DR of Gaussian noise. The paper is silent on clipping, but its text mentions truncation."""
    cells = []
    noisy = {setting: measured for setting, measured in found.items() if setting.method == "GNA"}
    where = "paper" if data_set.exactly else "other_data"
    printed = dict(zip(SIGMAS, zip(data_set.gna_sse, data_set.gna_dr, strict=True), strict=True))
    for setting, measured in noisy.items():
        sse, dr = printed[setting.amount]
        clipped, plain = measured[CLIPPED], measured[UNCLIPPED]
        cells += [
            printed_cell("2", setting.row, "SSE", clipped["SSE"] / data_set.unit, **{where: sse}),
            printed_cell("2", setting.row, "DR %", clipped["DR %"], **{where: dr}),
            printed_cell("2", setting.row, "DR %, from protected to original", clipped["DR %, literal"]),
            printed_cell("2", setting.row, "SSE, not clipped", plain["SSE"] / data_set.unit),
            printed_cell("2", setting.row, "DR %, not clipped", plain["DR %"]),
        ]
    for way in (CLIPPED, UNCLIPPED):
        series = [measured[way] for measured in noisy.values()]
        rises = sum(after["SSE"] > before["SSE"] for before, after in pairwise(series))
        falls = sum(
            _does_not_rise(a["DR %"], b["DR %"], people * data_set.repeats) for a, b in pairwise(series)
        )
        steps = len(series) - 1
        cells += [
            printed_cell("2", f"all σ, {way}", f"steps of {steps} in which SSE rises", rises, at_least=steps),
            printed_cell(
                "2", f"all σ, {way}", f"steps of {steps} in which DR does not rise", falls, at_least=steps
            ),
        ]
    return cells


def _does_not_rise(before: float, after: float, drawn: int) -> bool:
    """Test whether a share does not rise beyond chance; near 0 it moves by single hits."""
    share = max(before / 100, 1 / drawn)
    return after - before <= 100 * STANDARD_ERRORS * np.sqrt(2 * share / drawn)


def table_3(
    found: Found, held_out: dict[Setting, float], data_set: DataSet, scale: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return the MAE at the same DR."""
    grouped, noisy = data_set.compared
    matched = setting_of_same_risk(found, grouped)
    least = found[grouped][CLIPPED]["MAE"] + WORSE_BY
    names = {
        f"MDAV, {grouped.row}": (grouped, data_set.mae[0], data_set.percent[0]),
        f"GNA, {noisy.row}": (noisy, data_set.mae[1], data_set.percent[1]),
        f"GNA nearest to our DR of MDAV, {matched.row}": (matched, None, None),
    }
    where = "paper" if data_set.exactly else "other_data"
    cells = []
    for row, (setting, mae, percent) in names.items():
        ours, span = found[setting][CLIPPED], scale[1] - scale[0]
        bar: dict[str, float] = {}
        if data_set.exactly and setting == matched:
            bar = {"at_least": least}
        made = printed_cell("3", row, "MAE", ours["MAE"], **{where: mae}, **bar)
        if data_set.exactly and setting == grouped:
            low, high = MAE_RANGE
            made |= {"tolerance": round(data_set.mae[0] - low, 5), "within": bool(low <= ours["MAE"] <= high)}
        cells += [
            made,
            printed_cell("3", row, "%MAE", 100 * ours["MAE"] / span, **{where: percent}),
            printed_cell("3", row, "DR %", ours["DR %"]),
            printed_cell("3", row, "MAE, ratings hidden beforehand", held_out[setting]),
        ]
    return cells


def figure_5(found: Found) -> list[dict[str, Any]]:
    """Return MAE against DR of every setting; Figures 3, 4 and 6 are columns of the tables."""
    return [
        printed_cell(
            "fig5",
            f"{setting.method}, {setting.row}" if setting.method != "V-MDAV" else setting.row,
            column,
            value,
        )
        for setting, measured in found.items()
        for column, value in measured[CLIPPED].items()
        if column in ("DR %", "MAE")
    ]


def _mean(draws: list[dict[str, Measures]]) -> dict[str, Measures]:
    return {
        way: {name: float(np.mean([draw[way][name] for draw in draws])) for name in draws[0][way]}
        for way in draws[0]
    }
