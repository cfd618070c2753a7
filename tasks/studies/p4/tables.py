"""Reproduce the tables and Figure 2 of [RFPP] on MovieLens 1M or 100K.

Our copy of the paper contains no table, only what its text reports about them; so most cells have no value of the
paper's. The paper's inferrer does not know of the additions; beside it stands one that learns from them. Every
strategy in tasks/obfuscators has its curve. The paper averages over ten splits, we over `seeds` in the answer. The
bars are those of docs/leaks-and-bars.md.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tasks import obfuscators
from tasks.config import ReleaseConfig, parse
from tasks.engine import Engine
from tasks.obfuscators import Quotient, Rating, Similarity
from tasks.studies.datasets import require_format
from tasks.studies.p4 import figures as figures_p4
from tasks.studies.p4.trials import Measures, Setting, run_trial, shares_by_rank
from tasks.studies.printed_cells import printed_cell
from tasks.studies.study_data import Progress, ingested, silent_progress

PERCENTS = (0.0, 0.5, 1.0, 2.0, 3.89, 6.0, 8.12, 10.0)  # p₀
PAPER_PERCENTS = (3.89, 8.12)  # the two that the text mentions (k = 2 and k = 8)
FEW_PERCENTS = (0.1, 0.2)  # "no more than 0.2 % extra ratings" are enough for age (section 6.4)
KS = (1, 2, 4, 6, 8, 10, 20, 50, 100)
COLUMNS = (
    "dRMSE",
    "BPre naive",
    "BPre adaptive",
    "|BPre naive - 0.5|",
    "mean recall naive",
    "mean recall adaptive",
    "area naive",
    "area adaptive",
    "p0 %",
)

WITHIN_POINTS = 0.1  # allowed distance of p₀ from the requested one, in percentage points
MOST_LOSS = {3.89: 0.01, 8.12: 0.015}  # |dRMSE|
# The values that the text gives for MovieLens 1M ([RFPP], sections 5.1 and 6.4).
PRINTED = {
    ("1", "compound", "dRMSE"): -0.002086,
    ("2", "exp(-n)", "dRMSE"): -0.002086,
    ("3", "opposite", "dRMSE"): -0.002086,
    ("fig2", "gender p0=3.89", "dRMSE"): -0.002,
    ("fig2", "gender p0=3.89", "|BPre naive - 0.5|"): 0.05,
    ("fig2", "gender p0=8.12", "dRMSE"): 0.012,
    ("fig2", "gender p0=8.12", "|BPre naive - 0.5|"): 0.003,
    ("fig2", "gender p0=10, weinsberg", "dRMSE"): 0.058,
    ("fig2", "gender p0=10, weinsberg", "|BPre naive - 0.5|"): 0.145,
    ("section 6", "real ratings where held out", "dRMSE"): -0.001,
    ("section 6", "ratings made up", "dRMSE"): -0.002,
    ("fig2", "gender k=2", "p0 %, top k of all items"): 3.89,
    ("fig2", "gender k=8", "p0 %, top k of all items"): 8.12,
    ("fig2", "gender k=10", "p0 %, top k of all items"): 8.82,
}

Found = dict[Setting, Measures]
Ranks = dict[str, dict[int, tuple[float, float]]]


@dataclass(frozen=True)
class DataSet:
    """Describe how a data set is read, and how often everything is drawn."""

    seeds: int
    youth: tuple[int, ...]  # values of age
    exactly: bool  # whether this is exactly the paper's data


DATA_SETS = {
    "movielens-1m": DataSet(seeds=5, youth=(18, 25, 35), exactly=True),  # codes: 18 to 24, 25 to 34, 35 to 44
    "movielens-100k": DataSet(seeds=10, youth=tuple(range(18, 45)), exactly=False),  # years
}


def reproduce(data: Path, *, plots: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Add ratings in every way the paper did; return its tables and figure."""
    kind = require_format(data, DATA_SETS, "[RFPP]")  # it needs users' gender and age
    data_set, report, config = DATA_SETS[kind], progress or silent_progress, configuration(kind, data)
    with ingested(config, report) as (ingest, workers):
        study = Study(Path(ingest["path"]), config.source.scale, data_set.seeds, workers, report)
        found, ranked = study.measure(all_settings()), study.measure_ranks()
    if plots:
        figures_p4.plot(found, ranked, plots)
    return {
        "paper": "P4",
        "dataset": kind,
        "seeds": data_set.seeds,
        "cells": build_cells(found, ranked, data_set),
    }


def configuration(kind: str, data: Path) -> ReleaseConfig:
    """Return the configuration of the data set with gender, and age as youth and others ([RFPP], section 6.1)."""
    youth = [str(value) for value in DATA_SETS[kind].youth]
    attributes = {"columns": ["gender", "age"], "groups": {"age": {"youth": youth}}}
    source = {"format": kind, "path": str(data), "attributes": attributes}
    return parse({"release": {"name": "reproduce"}, "source": source}, "murmur reproduce P4").alone()


@dataclass(frozen=True)
class Study:
    """Hold where the ratings are, how often everything is drawn, and the progress callback."""

    ingest: Path
    scale: tuple[float, float]
    seeds: int
    workers: Engine
    progress: Progress

    def measure(self, settings: Iterable[Setting]) -> Found:
        """Measure every setting, as means over the seeds."""
        wanted = sorted(
            set(settings), key=lambda setting: setting.attribute
        )  # what they share is kept at hand
        trials = [(setting, seed) for seed in range(self.seeds) for setting in wanted]
        results = self._map("additions", run_trial, trials)
        drawn: dict[Setting, list[Measures]] = {setting: [] for setting in wanted}
        for (setting, _), result in zip(trials, results, strict=True):
            drawn[setting].append(result)
        means = {
            setting: {name: float(np.mean([one[name] for one in draws])) for name in draws[0]}
            for setting, draws in drawn.items()
        }
        # P of the loss function ([RFPP], equation 2).
        return {s: mean | {"|BPre naive - 0.5|": abs(mean["BPre naive"] - 0.5)} for s, mean in means.items()}

    def measure_ranks(self) -> Ranks:
        """Measure p₀ by k, for either attribute."""
        trials = [(attribute, seed) for attribute in ("gender", "age") for seed in range(self.seeds)]
        results = self._map("rank-k", shares_by_rank, trials, ks=KS)
        means: Ranks = {}
        for attribute in ("gender", "age"):
            draws = [result for (name, _), result in zip(trials, results, strict=True) if name == attribute]
            means[attribute] = {
                k: (
                    float(np.mean([one[k][0] for one in draws])),
                    float(np.mean([one[k][1] for one in draws])),
                )
                for k in KS
            }
        return means

    def _map(self, what: str, function: Callable[..., Any], trials: list[Any], **common: Any) -> list[Any]:
        progress = functools.partial(self.progress, what)
        return self.workers.map(
            function, trials, progress=progress, ingest=self.ingest, scale=self.scale, **common
        )


def rfpp_setting(attribute: str, percent: float, **choices: Any) -> Setting:
    """Return the setting of RFPP, or of no additions where `percent` is 0."""
    return Setting(attribute, "rfpp" if percent else None, percent, **choices)


def curve_settings() -> list[Setting]:
    """List the settings of Figure 2 (a) and (c): all strategies over p₀ for gender; for age RFPP over p₀.

    The other strategies are measured for age at the paper's two p₀ only.
    """
    others = [name for name in obfuscators.registered() if name != "rfpp"]
    return [
        *(rfpp_setting(attribute, percent) for attribute in ("gender", "age") for percent in PERCENTS),
        *(Setting("gender", name, percent) for name in others for percent in PERCENTS if percent),
        *(Setting("age", name, percent) for name in others for percent in PAPER_PERCENTS),
    ]


def table_settings() -> dict[str, dict[str, Setting]]:
    """Return the settings of Tables 1 to 4 by row, and those of the experiment with real ratings."""
    share = PAPER_PERCENTS[0]
    similarities = {name: rfpp_setting("gender", share, similarity=name) for name in get_args(Similarity)}
    passed = rfpp_setting("gender", share, similarity="jaccard", threshold=None)
    return {
        "1": similarities | {"jaccard, threshold that 5 % of pairs pass": passed},
        "2": {name: rfpp_setting("gender", share, quotient=name) for name in get_args(Quotient)},
        "3": {name: rfpp_setting("gender", share, rating=name) for name in get_args(Rating)},
        "4": {
            f"age p0={percent:g}": rfpp_setting("age", percent)
            for percent in sorted((*FEW_PERCENTS, *PERCENTS))
        },
        "section 6": {
            "ratings made up": rfpp_setting("gender", share),
            "real ratings where held out": rfpp_setting("gender", share, real=True),
        },
    }


def all_settings() -> list[Setting]:
    """List every setting that is measured."""
    return [*curve_settings(), *(setting for rows in table_settings().values() for setting in rows.values())]


def build_cells(found: Found, ranked: Ranks, data_set: DataSet) -> list[dict[str, Any]]:
    """Return all cells: Tables 1 to 4, Figure 2, the experiment with real ratings."""
    cells = []
    for table, rows in table_settings().items():
        more = ("dRMSE, additions left out", "additions held out %") if table == "section 6" else ()
        for row, setting in rows.items():
            cells += [
                _cell(table, row, column, found[setting][column], data_set) for column in (*COLUMNS, *more)
            ]
    for setting in curve_settings():
        for column in COLUMNS:
            made = _cell("fig2", setting.row, column, found[setting][column], data_set)
            cells.append(made | _bar(setting, column, found[setting][column], data_set))
    for attribute, by_k in ranked.items():
        for k, (of_all, of_own) in by_k.items():
            row = f"{attribute} k={k}"
            cells += [
                _cell("fig2", row, "p0 %, top k of all items", of_all, data_set),
                _cell("fig2", row, "p0 %, k for every user", of_own, data_set),
            ]
    return cells


def _cell(table: str, row: str, column: str, ours: float, data_set: DataSet) -> dict[str, Any]:
    where = "paper" if data_set.exactly else "other_data"
    return printed_cell(table, row, column, ours, **{where: PRINTED.get((table, row, column))})


def _bar(setting: Setting, column: str, ours: float, data_set: DataSet) -> dict[str, Any]:
    """Return the bar of docs/leaks-and-bars.md: p₀ as requested for every strategy; little loss by RFPP for gender."""
    if column == "p0 %":
        return {"tolerance": WITHIN_POINTS, "within": bool(abs(ours - setting.percent) <= WITHIN_POINTS)}
    of_rfpp = setting.strategy == "rfpp" and setting.attribute == "gender" and setting.percent in MOST_LOSS
    if column == "dRMSE" and of_rfpp and data_set.exactly:
        most = MOST_LOSS[setting.percent]
        return {"tolerance": most, "within": bool(abs(ours) <= most)}
    return {}
