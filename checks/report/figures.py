"""Read what the charts of report.html show: group sizes, published ratings, item coverage, disclosure, errors."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from checks.evidence.release import Release
from checks.report.charts import Histogram, Line, Scale, counts_by_size, histogram, lines
from checks.report.rendering import number, share
from checks.result import CheckResult
from tasks.store import read_json

Z_SCORE_RANGE = 4  # root mean squares to either side of 0 that the histogram of z-scores shows
COVERAGE_BINS = 10
BY_POPULARITY = "popularity"  # key of an outcome's `more`: the popularity of its items, low and high


def group_sizes(release: Release, *, single: bool) -> Histogram:
    """Count the groups of each size."""
    edges, heights = counts_by_size(release.listed)
    kind = (
        "every one is a single person's record" if single else "all members of a group have the same profile"
    )
    return histogram(
        edges,
        {"groups": heights},
        title="People per group",
        x="people in a group",
        y="groups",
        caption=f"{release.n_groups:,} {'records' if single else 'groups'}; {kind}.",
        whole=True,
    )


def published_ratings(release: Release, utility_dir: Path, *, owner: bool) -> Histogram:
    """Count the published ratings; for the owner beside the real and the padded ones ([Chang2009], table 2)."""
    if release.unit == "z-score":
        return _z_scores(release)
    path = utility_dir / "summary.json"
    known = read_json(path).get("histogram", {}) if owner and path.exists() else {}
    edges = np.array(known.get("edges") or _rating_edges(release), dtype=np.float64)
    series = {"published": _shares(release, edges)}
    caption = "Published ratings, each counted once per person."
    if known.get("observed_share"):
        observed = np.array(known["observed_share"], dtype=np.float64)
        series["before"] = observed / max(observed.sum(), 1e-12)
        caption += f" Before: the real ratings, {share(1 - known.get('null_share', 0))} of all cells."
    if known.get("padded_share"):
        series["predicted"] = np.array(known["padded_share"], dtype=np.float64)
        caption += " Predicted: single people's predictions, before groups were formed."
    whole = [number(one) for one in np.arange(math.ceil(edges[0]), math.floor(edges[-1]) + 1).tolist()]
    names = whole if len(whole) == len(edges) - 1 else []
    return histogram(
        edges, series, title="Ratings", x="rating", y="of the ratings", caption=caption, unit="%", names=names
    )


def _rating_edges(release: Release) -> np.ndarray:
    """Return bins around whole ratings where the scale is short, ten equal bins where it is long."""
    low, high = release.low, release.high
    if high - low > COVERAGE_BINS:
        return np.linspace(low, high, COVERAGE_BINS + 1)
    return np.concatenate([[low], np.arange(math.ceil(low), math.floor(high)) + 0.5, [high]])


def coverage(release: Release) -> tuple[Histogram | None, str]:
    """Count the groups that have each item; where all have all, or nothing varies, only words."""
    if release.complete:
        return None, f"Every one of the {release.n_items:,} items is published in every group."
    held = np.zeros(release.n_items, np.int64)
    for block in release.blocks():
        held += np.bincount(block.columns, minlength=release.n_items)
    part = held / max(1, release.n_groups)
    edges = np.linspace(0, 100, COVERAGE_BINS + 1)
    heights = np.histogram(100 * part, edges)[0].astype(np.float64)
    words = (
        f"The median item is in {share(float(np.median(part)))} of the groups, the rarest in {int(held.min()):,} of "
        f"{release.n_groups:,}."
    )
    chart = histogram(
        edges,
        {"items": heights},
        title="Item coverage",
        x="% of groups that have the item",
        y="items",
        caption=words,
    )
    return chart, words


@dataclass(frozen=True)
class Disclosure:
    """Hold one popularity bin: the share of published links that are real, and what theory predicts without a leak."""

    name: str
    measured: str
    expected: str
    pairs: str
    at: float
    theory: float


def disclosure(check: CheckResult | None) -> list[Disclosure]:
    """Return the bins of the check `link-existence`, where it measured any."""
    if check is None:
        return []
    found = []
    scale = Scale(0.0, 1.0)
    for one in check.outcomes:
        if BY_POPULARITY not in one.more or not one.risk.n:
            continue
        low, high = one.more[BY_POPULARITY]
        at, theory = scale.point(one.risk.rate), scale.point(one.risk.baseline)
        assert at is not None
        found.append(
            Disclosure(
                f"{number(100 * low)} to {share(high)}",
                share(one.risk.rate),
                share(one.risk.baseline),
                f"{int(one.risk.n):,}",
                one.risk.rate,
                one.risk.baseline if theory is not None else 0.0,
            )
        )
    return found


def heldout_errors(figures: dict[str, Any], *, own: str, by_chance: str) -> list[Line]:
    """Return the errors on held-out ratings of the release, the model behind it and the baselines."""
    rows = [
        ("Full data (not released)", figures["original_rmse"], False),
        (f"Release: {own}", figures["target_deviation_rmse"], True),
        ("Release: nearest profile", figures["similar_user_rmse"], True),
        (by_chance.capitalize(), figures["random_group_rmse"], False),
        ("Item means", figures["item_mean_rmse"], False),
    ]
    return lines(rows)


def _z_scores(release: Release) -> Histogram:
    """Count the published z-scores; real ratings are on another scale and are not drawn."""
    squares = sum(float((values.astype(np.float64) ** 2).sum()) for values, _ in published_values(release))
    widest = Z_SCORE_RANGE * math.sqrt(squares / max(1, release.cells)) or 1.0
    edges = np.linspace(-widest, widest, 25)
    return histogram(
        edges,
        {"published": _shares(release, edges)},
        title="z-scores",
        x="z-score",
        y="of the values",
        caption="Published z-scores, noise included; values outside the range are counted at its ends.",
        unit="%",
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
