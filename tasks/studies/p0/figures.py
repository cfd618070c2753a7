"""Compute and plot Figures 3, 4 and 5 of [Chang2009]."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.data.ratings import Ratings
from tasks.data.similarity import Similarity, padded_rows
from tasks.kernels.metrics import METRICS, distances, nearest
from tasks.pipeline import Run, execute
from tasks.studies.printed_cells import printed_cell
from tasks.studies.svg_plots import open_pyplot, save_figure

PAIRWISE_USERS = 2_000  # two million pairs; [Chang2009] took 5,000 users
EDGES = np.linspace(0, 1, 21)  # the twenty ranges of [Chang2009]
RANK_PERCENTS = (1, 2, 5, 10, 20, 30, 50, 100)
SIZE_QUANTILES = {"smallest": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "largest": 1.0}


@dataclass(frozen=True)
class Figures:
    """Hold the data of the three figures."""

    bin_sizes: dict[str, np.ndarray]  # Fig 3: with real-user and with virtual centres
    similarities: dict[tuple[str, str], np.ndarray]  # Fig 4: (metric, before | inside) → shares per range
    ranks: pd.DataFrame  # Fig 5


def measure(run: Run, ranks: pd.DataFrame) -> Figures:
    """Compute the figures' data from the steps of a padded release at k = 50."""
    made = {name: Path(execute(name, run)["path"]) for name in ("ingest", "padding", "centers", "binning")}
    low, high = run.config.source.scale
    users = Ratings(made["ingest"]).n_users
    sample = np.sort(run.rng("figures").choice(users, min(users, PAIRWISE_USERS), replace=False))
    rows = _rows(made, sample)
    bins = np.load(made["binning"] / "bins.npy")
    largest = np.flatnonzero(bins == np.bincount(bins).argmax())[:PAIRWISE_USERS]
    inside = _rows(made, largest)
    return Figures(
        _bin_sizes(run, made, high - low),
        {
            (metric, where): _pair_histogram(points, metric, high - low)
            for metric in METRICS
            for where, points in (("before clustering", rows), ("inside one cluster", inside))
        },
        ranks,
    )


def _bin_sizes(run: Run, made: dict[str, Path], max_diff: float) -> dict[str, np.ndarray]:
    """Bin all users by virtual centres, and by the real users nearest to them ([Chang2009], section 4.2, Figure 3)."""
    held = np.load(made["centers"] / "centers.npy")
    virtual = Similarity.of(run.config).as_points(made["padding"], held).rows(slice(None))
    users = Ratings(made["ingest"]).n_users
    metric = run.config.clustering.metric
    blocks = [np.arange(start, min(start + 1024, users)) for start in range(0, users, 1024)]
    best, distance = np.zeros(len(virtual), np.int64), np.full(len(virtual), np.inf)
    for block in blocks:
        apart = distances(_rows(made, block), virtual, metric=metric, max_diff=max_diff)
        nearer = apart.min(axis=0) < distance
        best[nearer], distance[nearer] = block[apart.argmin(axis=0)][nearer], apart.min(axis=0)[nearer]
    real = _rows(made, best)
    sizes = {}
    for name, centers in (("real-user centers", real), ("virtual centers", virtual)):
        found = [
            nearest(_rows(made, block), centers, metric=metric, max_diff=max_diff)[0] for block in blocks
        ]
        sizes[name] = np.bincount(np.concatenate(found), minlength=len(centers))
    return sizes


def _rows(made: dict[str, Path], users: np.ndarray) -> np.ndarray:
    """Return padded vectors as in [Chang2009], with the observed ratings in place."""
    return padded_rows(made["ingest"], made["padding"], users, keep_observed=True)


def _pair_histogram(points: np.ndarray, metric: str, max_diff: float) -> np.ndarray:
    apart = distances(points, points, metric=metric, max_diff=max_diff)[np.triu_indices(len(points), 1)]
    return np.histogram(np.clip(apart, 0, 1), EDGES)[0] / max(1, len(apart))


def cells(figures: Figures) -> list[dict[str, Any]]:
    """Return the figures as cells of `murmur reproduce`; the paper prints no numbers for them."""
    sizes = [
        printed_cell("fig3", f"{name} (bin size)", label, float(np.quantile(values, at)))
        for name, values in figures.bin_sizes.items()
        for label, at in SIZE_QUANTILES.items()
    ]
    similar = [
        printed_cell(
            "fig4", f"{metric}, {where}", f"[{EDGES[place]:.2f}, {EDGES[place + 1]:.2f})", 100 * share
        )
        for (metric, where), shares in figures.similarities.items()
        for place, share in enumerate(shares)
        if share > 0
    ]
    within = [
        printed_cell(
            "fig5",
            "Padded Anonymization (k = 50), all predicted",
            f"self-rank within {percent} % (share of users, %)",
            share,
        )
        for percent, share in _rank_curve(figures.ranks)
    ]
    return sizes + similar + within


def _rank_curve(ranks: pd.DataFrame) -> list[tuple[int, float]]:
    relative = 100 * ranks["self_rank"].to_numpy() / ranks["groups"].to_numpy()
    # Rank 1 is within any percentage, however few groups there are.
    first = ranks["self_rank"].to_numpy() == 1
    return [(percent, float(100 * ((relative <= percent) | first).mean())) for percent in RANK_PERCENTS]


def plot(figures: Figures, directory: Path) -> None:
    """Write fig3.svg, fig4.svg and fig5.svg."""
    pyplot = open_pyplot(directory)
    pyplot.figure(figsize=(6, 4))
    for name, values in figures.bin_sizes.items():
        pyplot.plot(np.sort(values)[::-1], label=name)
    pyplot.xlabel("bins, largest first")
    pyplot.ylabel("users in the bin")
    pyplot.title("Fig 3: real-user against virtual centres")
    pyplot.legend()
    save_figure(pyplot, directory / "fig3.svg")

    _, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, where in zip(axes, ("before clustering", "inside one cluster"), strict=True):
        for metric in METRICS:
            axis.plot(EDGES[:-1], 100 * figures.similarities[metric, where], label=metric)
        axis.set_title(f"Fig 4: {where}")
        axis.set_xlabel("distance between two users")
    axes[0].set_ylabel("share of pairs, %")
    axes[1].legend()
    save_figure(pyplot, directory / "fig4.svg")

    pyplot.figure(figsize=(6, 4))
    percents, shares = zip(*_rank_curve(figures.ranks), strict=True)
    pyplot.plot(percents, shares, marker="o")
    pyplot.xlabel("self-rank within this percentage of the groups")
    pyplot.ylabel("share of users, %")
    pyplot.title("Fig 5: how near a user's own group is")
    save_figure(pyplot, directory / "fig5.svg")
