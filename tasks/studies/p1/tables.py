"""Reproduce the tables and figures of [Zhang2006] on MovieLens 100K or on Jester.

Every figure is the mean of five seeds, each with its own split and noise (the paper: 20 trials). The paper does not
say which 3,000 people of Jester it took: ours are drawn from file 1, and its figures stand beside ours as those of
other data. The bars are those of docs/leaks-and-bars.md, for MovieLens 100K.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from checks.reconstruction import kmeans
from tasks.data.ratings import Ratings
from tasks.engine import Engine
from tasks.kernels.rating_noise import moments, z_scores
from tasks.studies.datasets import require_format
from tasks.studies.p1 import figures as figures_p1
from tasks.studies.p1.trials import Entries, Measures, Scale, Setting, run_trial
from tasks.studies.printed_cells import printed_cell
from tasks.studies.study_data import Progress, ingested, silent_progress, study_config

SEEDS = 5
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)

Table = dict[str, Measures]


@dataclass(frozen=True)
class DataSet:
    """Describe what the paper did with one data set.

    Amounts of noise are given as they are written (σ; α is √3 times that, the same variance): those it printed and
    those between them for the figures. Then the numbers of its tables and figures.
    """

    scale: Scale
    people: int | None  # size of the sample; None: all
    rated: tuple[str, ...]
    rated_between: tuple[str, ...]
    every: tuple[str, ...]
    every_between: tuple[str, ...]
    rated_flexible: tuple[str, ...]
    every_flexible: tuple[str, ...]
    averages_table: str
    rated_table: str
    every_table: str
    figures: dict[str, Entries]  # number → entries


DATA_SETS = {
    "movielens-100k": DataSet(
        scale=Scale(1.0, 5.0, STARS),
        people=None,
        rated=("1/3", "2/3", "1"),
        rated_between=("1/6", "1/2", "5/6"),
        every=("1", "2", "3"),
        every_between=("1/2", "3/2", "5/2"),
        rated_flexible=("2/3", "1"),
        every_flexible=("2",),
        averages_table="3",
        rated_table="2",
        every_table="4",
        figures={"fig4": "rated", "fig5": "rated", "fig6": "all"},
    ),
    "jester": DataSet(
        scale=Scale(-10.0, 10.0, None),
        people=3_000,
        rated=("1/2", "1", "3/2"),
        rated_between=("1/4", "3/4", "5/4"),
        every=("0.7", "1.4", "2.1"),
        every_between=("0.35", "1.05", "1.75"),
        rated_flexible=("1",),
        every_flexible=("1.4",),
        averages_table="5",
        rated_table="6",
        every_table="7",
        figures={"fig7": "rated", "fig8": "all"},
    ),
}
FLEXIBLE = "6.3"
BOTH, APART = "Profile1 and Profile2", "largest difference of z-scores"
# The measures that each figure shows.
SHOWN = {"fig4": ("zscore-MAE", "zscore-MAE(PCA)")} | dict.fromkeys(
    ("fig5", "fig6", "fig7", "fig8"), ("R-MAE", "P-MAE", "MAE(SVD)")
)

_PREDICTED = ("MAE(SVD)", "ROC-4(SVD)", "MAE(Pearson)", "ROC-4(Pearson)")
_FOUND = ("MAE(SVD)", "ROC-4(SVD)", "Precision", "Recall", "R-MAE")
COLUMNS = {
    "1": (APART,),
    "2": (*_PREDICTED, "R-MAE", "Accuracy", "zscore-MAE"),
    "3": ("MAE", "ROC-4"),
    "4": (*_FOUND, "Accuracy", "zscore-MAE"),
    "5": ("MAE", "ROC-4"),
    "6": (*_PREDICTED, "R-MAE", "zscore-MAE"),
    "7": (*_FOUND, "zscore-MAE"),
}
# The values that the paper printed, in the order of its columns.
PRINTED: dict[str, dict[str, tuple[float | None, ...]]] = {
    "1": {BOTH: (0.0,)},  # "the same z-score vector"
    "2": {
        "none": (0.7493, 0.7477, 0.7694, 0.7544, 0.0795, 0.9246),
        "σ=1/3": (0.7582, 0.7349, 0.7749, 0.7497, 0.3393, 0.6712, 0.5601),
        "σ=2/3": (0.7850, 0.7051, 0.7932, 0.7401, 0.6204, 0.4565, 0.6129),
        "σ=1": (0.8192, 0.6716, 0.8234, 0.7259, 0.7850, 0.3776, 0.6875),
        "α=√3/3": (0.7591, 0.7343, 0.7748, 0.7500, 0.4167, 0.5898, 0.5603),
        "α=2√3/3": (0.7855, 0.7049, 0.7928, 0.7410, 0.6138, 0.4474, 0.6131),
        "α=√3": (0.8179, 0.6730, 0.8218, 0.7273, 0.7983, 0.3629, 0.6877),
    },
    "3": {"Item averages": (0.8154, 0.7578), "User averages": (0.8350,)},
    "4": {
        "all entries none": (0.7971, 0.7129),
        "all entries σ=1": (0.7986, 0.7036, 0.8952, 0.4338, 0.2943, 0.7151, 2.7362),
        "all entries σ=2": (0.8048, 0.6759, 0.7801, 0.1797, 0.4167, 0.6059, 3.1580),
        "all entries σ=3": (0.8179, 0.6432, 0.6285, 0.0879, 0.4654, 0.5847, 3.7506),
        "all entries α=√3": (0.7988, 0.7046, 1.0, 0.6486, 0.2432, 0.7629, 2.4828),
        "all entries α=2√3": (0.8051, 0.6774, 1.0, 0.4227, 0.3923, 0.6194, 2.7192),
        "all entries α=3√3": (0.8178, 0.6417, 1.0, 0.3018, 0.4533, 0.5670, 3.0480),
    },
    "5": {"Item averages": (4.0703, 0.7314), "User averages": (3.8795,)},
    "6": {
        "none": (3.2272, 0.7522, 3.3798, 0.7480),
        "σ=1/2": (3.3180, 0.7376, 3.3813, 0.7481, 2.3839, 0.6113),
        "σ=1": (3.5674, 0.7066, 3.3952, 0.7461, 3.3964, 0.6852),
        "σ=3/2": (3.9306, 0.6739, 3.4279, 0.7422, 4.0016, 0.7764),
        "α=√3/2": (3.3153, 0.7382, 3.3810, 0.7479, 2.3309, 0.6112),
        "α=√3": (3.5644, 0.7067, 3.3954, 0.7460, 3.3627, 0.6851),
        "α=3√3/2": (3.9297, 0.6729, 3.4265, 0.7421, 4.0393, 0.7773),
    },
    "7": {
        "all entries none": (3.3303, 0.7400),
        "all entries σ=0.7": (3.3924, 0.7198, 0.9619, 0.2402, 2.3532, 0.8298),
        "all entries σ=1.4": (3.5895, 0.6828, 0.8780, 0.0677, 2.9741, 1.1448),
        "all entries σ=2.1": (3.9047, 0.6486, 0.7848, 0.0341, 3.5908, 1.2714),
        "all entries α=0.7√3": (3.3926, 0.7191, 1.0, 0.4302, 2.2553, 0.8651),
        "all entries α=1.4√3": (3.5872, 0.6830, 1.0, 0.2220, 2.4507, 1.0059),
        "all entries α=2.1√3": (3.9070, 0.6495, 1.0, 0.1480, 2.6874, 1.0967),
    },
}
# docs/leaks-and-bars.md: how far a figure for MovieLens 100K may lie from the paper's.
BARS = {
    "R-MAE": 0.015,
    "Accuracy": 0.015,
    "zscore-MAE": 0.01,
    "Precision": 0.01,
    "Recall": 0.01,
    "MAE(SVD)": 0.02,
}
ALL_UNIFORM_BARS = {"R-MAE": 0.025, "Accuracy": 0.025}
# Table 1: two users whose z-scores are the same; NaN is not rated.
PROFILES = {
    "Profile1": (2, 2, np.nan, 3, 3, 3, np.nan, 5),
    "Profile2": (1, 1, np.nan, 2, 2, 2, np.nan, 4),
}


def reproduce(data: Path, *, plots: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Disguise and reconstruct the data in every way the paper did; return its tables and figures."""
    kind = require_format(data, DATA_SETS, "[Zhang2006]")
    config, report = study_config(kind, data, "murmur reproduce P1"), progress or silent_progress
    with ingested(config, report) as (ingest, workers):
        tables = measure(Path(ingest["path"]), DATA_SETS[kind], workers, seeds=SEEDS, progress=report)
    if plots:
        figures_p1.plot(tables, plots)
    return {"paper": "P1", "dataset": kind, "seeds": SEEDS, "cells": cells(tables, kind)}


def measure(
    ratings: Path, data_set: DataSet, workers: Engine, *, seeds: int, progress: Progress
) -> dict[str, Table]:
    """Return all tables by their number in the paper, from the output of ingest."""
    people = np.arange(Ratings(ratings).n_users)
    if data_set.people:
        sample = np.random.default_rng(0).permutation(people)[: data_set.people]
        people = np.sort(sample)
    settings = list_settings(data_set)
    blocks = [(setting, seed) for setting in (None, *settings) for seed in range(seeds)]
    found = workers.map(
        run_trial,
        blocks,
        progress=functools.partial(progress, "trials"),
        ratings=ratings,
        people=people,
        scale=data_set.scale,
    )
    means = [_mean(found[start : start + seeds]) for start in range(0, len(found), seeds)]
    return lay_out_tables(means[0], dict(zip(settings, means[1:], strict=True)), data_set)


def list_settings(data_set: DataSet) -> list[Setting]:
    """List every way of disguising, the plain ones first."""
    found = [Setting("none"), Setting("all entries none", entries="all")]
    ways: tuple[tuple[Entries, tuple[str, ...], bool], ...] = (
        ("rated", (*data_set.rated, *data_set.rated_between), False),
        ("all", (*data_set.every, *data_set.every_between), False),
        ("rated", data_set.rated_flexible, True),
        ("all", data_set.every_flexible, True),
    )
    for entries, amounts, flexible in ways:
        prefix = ("all entries " if entries == "all" else "") + ("flexible " if flexible else "")
        sign = "≤" if flexible else "="
        for text in amounts:
            sigma = _number(text)
            found += [
                Setting(f"{prefix}σ{sign}{text}", entries, "gaussian", sigma, flexible),
                Setting(
                    f"{prefix}α{sign}{_times_root_3(text)}", entries, "uniform", sigma * 3**0.5, flexible
                ),
            ]
    return found


def lay_out_tables(averages: Measures, found: dict[Setting, Measures], data_set: DataSet) -> dict[str, Table]:
    """Arrange the measurements as the paper's tables and figures."""
    printed = {"rated": PRINTED[data_set.rated_table], "all": PRINTED[data_set.every_table]}
    tables: dict[str, Table] = {
        **({"1": indistinguishable_profiles()} if data_set.scale.levels else {}),
        data_set.averages_table: {
            "Item averages": {"MAE": averages["Item averages MAE"], "ROC-4": averages["Item averages ROC-4"]},
            "User averages": {"MAE": averages["User averages MAE"]},
        },
        data_set.rated_table: {s.row: m for s, m in found.items() if s.row in printed["rated"]},
        data_set.every_table: {s.row: m for s, m in found.items() if s.row in printed["all"]},
        FLEXIBLE: {s.row: m for s, m in found.items() if s.flexible},
    }
    for number, entries in data_set.figures.items():
        series = [s for s in found if s.entries == entries and s.amount and not s.flexible]
        series.sort(key=lambda s: (s.noise, s.amount))
        tables[number] = {s.row: {name: found[s][name] for name in SHOWN[number]} for s in series}
    return dict(sorted(tables.items()))


def indistinguishable_profiles() -> Table:
    """Compute Table 1: the z-scores of two users that cannot be distinguished, and their reconstruction by k-means."""
    rows, columns = np.nonzero(~np.isnan(np.array(list(PROFILES.values()))))
    values = np.array(list(PROFILES.values()))[rows, columns]
    ratings = sp.csr_array((values, (rows, columns)), shape=(len(PROFILES), 8))
    scores = z_scores(ratings, *moments(ratings)).reshape(len(PROFILES), -1)
    disguised = sp.csr_array((scores.ravel(), ratings.indices, ratings.indptr), shape=ratings.shape)
    reconstructed = kmeans.reconstruct(disguised, np.array(STARS)).data.reshape(scores.shape)
    rated = columns[rows == 0]
    table: Table = {
        f"{name} z-score": {
            f"I{item + 1}": float(score) for item, score in zip(rated, scores[row], strict=True)
        }
        for row, name in enumerate(PROFILES)
    }
    for row, name in enumerate(PROFILES):
        table[name] = {"Accuracy": float((reconstructed[row] == values[rows == row]).mean())}
    table[BOTH] = {APART: float(np.abs(np.diff(scores, axis=0)).max())}
    return table


def cells(tables: dict[str, Table], kind: str) -> list[dict[str, Any]]:
    """Return the tables as cells of `murmur reproduce`."""
    exactly = kind == "movielens-100k"  # Jester: the paper's sample is another one
    return [
        printed_cell(
            table,
            row,
            column,
            ours,
            **{"paper" if exactly else "other_data": printed},
            tolerance=_bar(row, column) if exactly and printed is not None else None,
        )
        for table, rows in tables.items()
        for row, columns in rows.items()
        for column, ours in columns.items()
        for printed in [_printed_value(table, row, column)]
    ]


def _printed_value(table: str, row: str, column: str) -> float | None:
    found = dict(zip(COLUMNS.get(table, ()), PRINTED.get(table, {}).get(row, ()), strict=False))
    return found.get(column)


def _bar(row: str, column: str) -> float | None:
    if row.startswith("all entries α"):
        return (BARS | ALL_UNIFORM_BARS).get(column)
    return BARS.get(column)


def _mean(trials: list[Measures]) -> Measures:
    """Average every measure that all trials have."""
    columns = {name: [t[name] for t in trials] for name in trials[0]}
    return {
        name: None if None in values else float(np.mean([v for v in values if v is not None]))
        for name, values in columns.items()
    }


def _number(text: str) -> float:
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def _times_root_3(text: str) -> str:
    """Write `2/3` as `2√3/3`."""
    above, slash, below = text.partition("/")
    return f"{above if above != '1' else ''}√3{slash}{below}"
