"""Draw the plots of docs/benchmarks.md and docs/series.md, as SVG: the same bytes for the same figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.stages import own, total

COLOURS = ("#1b6ca8", "#d1603d", "#4a8f3c", "#8757a6", "#a88a1b", "#3aa6a6", "#b0446f", "#666666")
MOST_NAMES = 5  # in a legend among the lines
MOST_TICKS = 24  # with more places the axis chooses
LEAST_SHOWN = 0.02  # of the whole, at the largest size: shorter stages only crowd the plot


def growth(figures: dict[str, Any], directory: Path) -> None:
    """Draw CPU seconds over users on logarithmic axes, with the slopes 1 and 1.5 for comparison."""
    figure, axes = _axes(6.4, 4.2)
    runs = figures["runs"]
    users = [run["users"] for run in runs]
    whole = [total(run["stages"]) for run in runs]
    axes.plot(users, whole, "o-", color="black", linewidth=2.2, label="whole")
    shown = [s["name"] for s in own(runs[-1]["stages"]) if s["cpu_seconds"] >= LEAST_SHOWN * whole[-1]]
    for colour, name in zip(COLOURS, shown, strict=False):
        seconds = [{s["name"]: s["cpu_seconds"] for s in run["stages"]}.get(name) for run in runs]
        axes.plot(
            users, [one or float("nan") for one in seconds], "o-", color=colour, markersize=3, label=name
        )
    for slope, style in ((1.0, ":"), (1.5, "--")):
        line = [whole[0] * (count / users[0]) ** slope for count in users]
        axes.plot(users, line, style, color="grey", linewidth=1, label=f"slope {slope:g}")
    axes.set(xscale="log", yscale="log", xlabel="users", ylabel="CPU seconds")
    axes.set_xticks(users, [f"{count:,}" for count in users])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    _save(figure, directory / "growth.svg", figures["command"])


def stages(figures: dict[str, Any], directory: Path) -> None:
    """Draw CPU seconds of every stage, one bar per k."""
    runs = figures["runs"]
    names = [stage["name"] for stage in own(runs[0]["stages"])]
    figure, axes = _axes(6.4, 0.9 + 0.36 * len(names))
    height = 0.8 / len(runs)
    for number, (run, colour) in enumerate(zip(runs, COLOURS, strict=False)):
        seconds = {stage["name"]: stage["cpu_seconds"] for stage in own(run["stages"])}
        places = [place + number * height for place in range(len(names))]
        values = [seconds.get(name, 0.0) for name in names]
        drawn = axes.barh(places, values, height=height, color=colour, label=f"k = {run['k']}")
        axes.bar_label(drawn, fmt="%.1f", padding=2, fontsize=7)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(names))], names)
    axes.invert_yaxis()
    axes.set_xlabel("CPU seconds")
    axes.legend(frameon=False)
    _save(figure, directory / "stages.svg", figures["command"])


def lines(
    path: Path,
    values: Mapping[str, Sequence[float]],
    *,
    ylabel: str,
    command: str,
    xlabel: str,
    limits: Mapping[str, float] | None = None,
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> None:
    """Draw a line per name over 1, 2, …; NaN: a gap. `limits` are horizontal lines, `bands` lower and upper ends."""
    figure, axes = _axes(6.4, 3.0)
    for colour, (name, line) in zip(COLOURS, values.items(), strict=False):
        places = range(1, len(line) + 1)
        style = "o-" if len(line) <= MOST_TICKS else "-"
        axes.plot(places, line, style, color=colour, markersize=3.5, label=name)
        if bands and name in bands:
            axes.fill_between(places, *bands[name], color=colour, alpha=0.15, linewidth=0)
    for name, limit in (limits or {}).items():
        axes.axhline(limit, color="grey", linestyle="--", linewidth=1, label=name)
    longest = max((len(line) for line in values.values()), default=1)
    lowest = min((one for line in values.values() for one in line if one < 0), default=0)
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(1.1 * lowest, None))
    if longest <= MOST_TICKS:
        axes.set_xticks(range(1, longest + 1))
    # Many names beside the lines, where they cover nothing.
    beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if len(values) > MOST_NAMES else {}
    axes.legend(frameon=False, fontsize=8, **beside)
    _save(figure, path, command)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path, command: str) -> None:
    """Save a figure on white, readable on a dark page, with the command that made it below."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.text(0.01, 0.005, command, fontsize=6, color="grey")
    settings: dict[Any, str] = {
        "svg.hashsalt": f"murmuration {path.stem}",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
    }
    with mpl.rc_context(settings):
        figure.tight_layout(rect=(0, 0.02, 1, 1))
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
