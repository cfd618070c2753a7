"""Draw the figures of report.html: group sizes, published ratings, and the error on held-out ratings."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numba import njit

from checks.evidence.release import Release
from checks.report import plots
from tasks.store import read_json

Z_SCORE_RANGE = 4  # root mean squares to either side of 0 that the histogram of z-scores shows


@dataclass(frozen=True)
class Figure:
    """Hold one plot: its title for screen readers, its SVG markup and the caption below it."""

    title: str
    svg: Markup
    caption: str


def group_sizes(release: Release, *, single: bool) -> Figure:
    """Draw how many people the groups have."""
    counts = np.bincount(release.listed, minlength=1)
    first = int(np.flatnonzero(counts).min(initial=len(counts) - 1))
    edges, heights = np.arange(first, len(counts) + 1) - 0.5, counts[first:]
    title = "People per group"
    svg = plots.histogram(edges, {"groups": heights}, title=title, x="people", y="groups", name="groups")
    kind = (
        "every one is a single person's record."
        if single
        else "all members of a group have the same published profile."
    )
    return Figure(title, svg, f"{release.n_groups:,} groups; {kind}")


def published_ratings(release: Release, utility_dir: Path) -> Figure:
    """Draw the published ratings beside the real and the padded ones of the shadow run ([Chang2009], table 2)."""
    if release.unit == "z-score":
        return _z_scores(release)
    path = utility_dir / "summary.json"
    known = read_json(path).get("histogram", {}) if path.exists() else {}
    edges = np.array(known.get("edges") or np.linspace(release.low, release.high, 11), dtype=np.float64)
    series = {"published": _shares(release, edges)}
    caption = "Published ratings, each counted once per person."
    if known.get("observed_share"):
        observed = np.array(known["observed_share"], dtype=np.float64)
        series["real"] = observed / max(observed.sum(), 1e-12)
        caption += (
            f" Real ratings are the {1 - known.get('null_share', 0):.2%} of all cells that people filled."
        )
    if known.get("padded_share"):
        series["padded"] = np.array(known["padded_share"], dtype=np.float64)
    svg = plots.histogram(edges, series, title="Ratings", x="rating", y="share", name="ratings")
    return Figure("Ratings", svg, caption)


def heldout_errors(figures: dict[str, Any], *, own: str, by_chance: str) -> Figure:
    """Draw the error on held-out ratings of the release, the model behind it and the baselines."""
    errors = {
        "model, not released": figures["original_rmse"],
        own: figures["target_deviation_rmse"],
        "nearest profile": figures["similar_user_rmse"],
        by_chance: figures["random_group_rmse"],
        "item means": figures["item_mean_rmse"],
    }
    title = "Error on held-out ratings"
    svg = plots.bars(
        list(errors), list(errors.values()), title=title, x="RMSE, smaller is better", name="utility"
    )
    caption = (
        "From a shadow run of the same steps on the ratings that were not held out. A release is useful where "
        f"“{own}” is near the model and well below “{by_chance}”."
    )
    return Figure(title, svg, caption)


def _z_scores(release: Release) -> Figure:
    """Draw the published z-scores; real ratings are on another scale and are not drawn."""
    squares = sum(float((values.astype(np.float64) ** 2).sum()) for values, _ in published_values(release))
    widest = Z_SCORE_RANGE * math.sqrt(squares / max(1, release.cells)) or 1.0
    edges = np.linspace(-widest, widest, 25)
    series = {"published": _shares(release, edges)}
    svg = plots.histogram(edges, series, title="z-scores", x="z-score", y="share", name="ratings")
    return Figure(
        "z-scores",
        svg,
        "Published z-scores, noise included; values outside the range are counted at its ends.",
    )


def _shares(release: Release, edges: np.ndarray) -> np.ndarray:
    """Return the share of published values in each bin; values outside the edges count in the outer bins."""
    counts = np.zeros(len(edges) - 1)
    for value, people in published_values(release):
        counts += np.histogram(np.clip(value, edges[0], edges[-1]), edges, weights=people)[0]
    return counts / max(counts.sum(), 1)


def published_values(release: Release) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield published values with the number of people each is published for; codes are counted once per block."""
    for block in release.blocks():
        people = release.listed[block.rows_slice]
        if block.codes.dtype == np.float32:
            yield block.values, np.repeat(people, np.diff(block.indptr))
            continue
        count = np.zeros(np.iinfo(block.codes.dtype).max + 1, dtype=np.int64)
        _count_codes(block.codes, block.indptr, people, count)
        codes = np.flatnonzero(count)
        yield replace(block, codes=codes.astype(block.codes.dtype)).values, count[codes]


@njit(cache=True, nogil=True)
def _count_codes(codes, indptr, people, count):  # type: ignore[no-untyped-def]
    for row in range(len(people)):
        for code in codes[indptr[row] : indptr[row + 1]]:
            count[code] += people[row]
