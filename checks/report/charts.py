"""Lay out the charts of report.html: positions as parts of the width, so that templates draw them at any width."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checks.about import SHARE
from checks.report.rendering import decimal, number, share

LIMIT_AT = 0.6  # of the width, where the limit of every attack is drawn
ENDS_AT = 0.9  # the last place on the scale; what is beyond is drawn as such
BEYOND_AT = 0.96
MOST_BARS = 40
MOST_TICKS = 6
GAP = 0.12  # of a bin, between its bars and the next bin's


@dataclass(frozen=True)
class Point:
    """Hold a place on the scale of a chart, and whether the value is beyond its end."""

    at: float
    beyond: bool = False


@dataclass(frozen=True)
class Scale:
    """Place values between what guessing gives (`start`) and the limit; figures below the start are drawn at it."""

    start: float
    limit: float

    def point(self, value: float | None) -> Point | None:
        """Return where a value is drawn; None: there is no value."""
        if value is None or not math.isfinite(value):
            return None
        room = self.limit - self.start
        if room <= 0:  # nothing is allowed
            return Point(BEYOND_AT, beyond=True) if value > self.start else Point(0.0)
        at = max(0.0, (value - self.start) / room * LIMIT_AT)
        return Point(BEYOND_AT, beyond=True) if at > ENDS_AT else Point(at)


@dataclass(frozen=True)
class Bar:
    """Hold one bar: its place and width as parts of the drawing's width, its height as a part of the highest one."""

    left: float
    width: float
    height: float
    words: str


@dataclass(frozen=True)
class Histogram:
    """Hold a histogram: bars by name of the series, tick marks, and what a reader of the page alone sees."""

    title: str
    x: str
    y: str
    highest: str
    series: dict[str, list[Bar]]
    ticks: list[tuple[float, str]]
    caption: str

    @property
    def words(self) -> str:
        """Describe the drawing for readers who do not see it."""
        bars = "; ".join(
            f"{name}: {', '.join(bar.words for bar in bars)}" for name, bars in self.series.items()
        )
        return f"{self.title}. {bars}"


def histogram(  # noqa: PLR0913 - what a histogram shows
    edges: np.ndarray,
    series: dict[str, np.ndarray],
    *,
    title: str,
    x: str,
    y: str,
    caption: str,
    unit: str = "",
    whole: bool = False,
    names: Sequence[str] = (),
) -> Histogram:
    """Lay out bars side by side in each bin. `whole`: bins are around whole numbers, which the ticks name; `names`: of
    the bins, which are then drawn equally wide."""
    if names:
        edges = np.arange(len(names) + 1, dtype=np.float64)
    top = max((float(values.max(initial=0)) for values in series.values()), default=0) or 1.0
    span = float(edges[-1] - edges[0]) or 1.0
    labels = list(names) or [_bin(*one, whole=whole) for one in pairwise(edges)]
    bars: dict[str, list[Bar]] = {}
    for place, (name, values) in enumerate(series.items()):
        bars[name] = []
        for at, value in enumerate(values.tolist()):
            start, width = (edges[at] - edges[0]) / span, (edges[at + 1] - edges[at]) / span
            part = width * (1 - GAP) / len(series)
            words = f"{labels[at]}: {_height(value, unit)}"
            bars[name].append(Bar(start + width * GAP / 2 + place * part, part, value / top, words))
    ticks = _ticks(edges, whole=whole)
    if names:
        ticks = [((at + 0.5) / len(names), one) for at, one in enumerate(names)]
    return Histogram(title, x, y, _height(top, unit), bars, ticks, caption)


def _height(value: float, unit: str) -> str:
    return share(value) if unit == SHARE else number(value)


def _bin(left: float, right: float, *, whole: bool) -> str:
    if whole and right - left == 1:
        return number((left + right) / 2)
    return f"{number(math.ceil(left) if whole else left)} to {number(math.floor(right) if whole else right)}"


def _ticks(edges: np.ndarray, *, whole: bool) -> list[tuple[float, str]]:
    """Return a few places with their numbers: of bins around whole numbers the middles, else the edges."""
    span = float(edges[-1] - edges[0]) or 1.0
    at = (edges[:-1] + edges[1:]) / 2 if whole else edges
    if len(at) > MOST_TICKS:
        at = at[np.unique(np.linspace(0, len(at) - 1, MOST_TICKS).round().astype(int))]
    return [(float(one - edges[0]) / span, number(float(round(one, 6)))) for one in at]


def counts_by_size(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edges around whole numbers and how many sizes lie between: one bin a size, or equally wide ones."""
    first, last = int(sizes.min()), int(sizes.max())
    width = -(-(last - first + 1) // MOST_BARS)
    edges = np.arange(first, last + width + 1, width) - 0.5
    return edges, np.histogram(sizes, edges)[0].astype(np.float64)


@dataclass(frozen=True)
class Line:
    """Hold one row of a bar chart: the bar's length as a part of the longest one's, and its figure."""

    name: str
    length: float
    figure: str
    own: bool = False


def lines(rows: Sequence[tuple[str, float, bool]], *, unit: str = "") -> list[Line]:
    """Lay out horizontal bars from 0 on; `own` marks those of the release."""
    longest = max((value for _, value, _ in rows), default=0) or 1.0
    return [Line(name, value / longest, f"{decimal(value)}{unit}", own) for name, value, own in rows]
