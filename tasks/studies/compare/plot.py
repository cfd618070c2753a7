"""Draw the plot of `murmur compare`: the risk of the worst attack against the utility of the release.

Readable in black and white: the marker shows the method, filled is published, hollow is refused. Points have numbers;
the list below the plot explains them.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np

from tasks import methods
from tasks.methods import Method
from tasks.store import write_bytes

INK, GREY = "#111111", "#8a8a8a"
ORIGINAL = "*"
LEAST_RISK = 1e-4  # a logarithmic axis has no 0
PANELS = (
    ("rmse", "RMSE of the best recommender (better: up)"),
    ("ndcg_at_10", "nDCG@10 of the best recommender"),
)
LABEL_PLACES = [
    (9, 0),
    (-9, 0),
    (0, 9),
    (0, -9),
    (9, 9),
    (-9, 9),
    (9, -9),
    (-9, -9),
    (20, 0),
    (-20, 0),
    (0, 19),
]
LABEL_PLACES += [(0, -19), (20, 12), (-20, 12), (20, -12), (-20, -12)]
LABEL_POINTS = 8.5  # how far apart two labels must be to be read


def label(row: dict[str, Any]) -> str:
    """Describe an entry in words."""
    settings = ", ".join(f"{key} {_plain(value)}" for key, value in row["settings"].items())
    return f"{row['method']}{f' ({settings})' if settings else ''}"


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the plot as a file of SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, render(result))
    path.chmod(0o644)  # no secret is in it


def render(result: dict[str, Any]) -> bytes:
    """Return the plot as SVG: the same bytes for the same figures."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [row for row in result["rows"] if row["worst_risk"] is not None and row["utility"]]
    points = [(str(number), row) for number, row in enumerate(shown, start=1)]
    original = result["original"]
    lines = [f"{number}  {label(row)}: {row['status']}" for number, row in points]
    figure = Figure(figsize=(11, 5.4 + 0.19 * ((len(lines) + 1) // 2)))
    axes = figure.subplots(1, len(PANELS))
    for axis, (measure, title) in zip(axes, PANELS, strict=True):
        if original["worst_risk"] is not None and original["utility"]:
            value = original["utility"][measure]
            axis.axhline(value, color=GREY, linewidth=0.8, linestyle=":")
            axis.plot(_risk(original), value, ORIGINAL, color=INK, markersize=11)
        for _, row in points:
            filled = INK if row["status"] == "passed" else "white"
            axis.plot(
                _risk(row),
                row["utility"][measure],
                _legend_entry(row["method"])[1],
                color=INK,
                markerfacecolor=filled,
                markersize=7,
            )
        axis.set_xscale("log")
        axis.set_xlabel("worst of the attacks held to 1/k: upper bound")
        axis.set_title(title, fontsize=10, loc="left")
        if measure == "rmse":
            axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
        for k in sorted({row["k"] for _, row in points}):
            axis.axvline(1 / k, color=GREY, linewidth=1, linestyle="--")
            axis.annotate(
                f" 1/{k}", (1 / k, 0.01), xycoords=("data", "axes fraction"), color=GREY, fontsize=8
            )
    markers = dict(_legend_entry(row["method"]) for _, row in points) | {"original": ORIGINAL}
    handles: list[Any] = [
        Line2D([], [], marker=marker, color=INK, linestyle="", label=name) for name, marker in markers.items()
    ]
    handles += [
        Line2D([], [], marker="o", color=INK, markerfacecolor=face, linestyle="", label=name)
        for name, face in (("passed", INK), ("refused", "white"))
    ]
    bottom = 0.19 * ((len(lines) + 1) // 2) / figure.get_figheight()
    figure.tight_layout(rect=(0, bottom + 0.02, 1, 0.94))
    figure.legend(handles=handles, loc="upper center", ncols=len(handles), frameon=False, fontsize=9)
    for column, start in enumerate(range(0, len(lines), (len(lines) + 1) // 2 or 1)):
        text = "\n".join(lines[start : start + (len(lines) + 1) // 2])
        figure.text(0.04 + 0.5 * column, 0.01, text, fontsize=8, va="bottom", linespacing=1.45)
    figure.draw_without_rendering()  # now every point has its place
    for axis, (measure, _) in zip(axes, PANELS, strict=True):
        _write_numbers(axis, [(number, _risk(row), row["utility"][measure]) for number, row in points])
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "murmuration compare", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _legend_entry(method: str) -> tuple[str, str]:
    """Return a method's name in the legend and its marker, as it declares them."""
    declared = methods.registered().get(method)
    if declared is None:  # stored figures of a method that this installation does not have
        return method, Method.plot_marker
    return declared.plot_label or declared.name, declared.plot_marker


def _risk(row: dict[str, Any]) -> float:
    return max(row["worst_risk"], LEAST_RISK)


def _plain(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _write_numbers(axis: Any, points: list[tuple[str, float, float]]) -> None:
    """Write a number beside each point, where it covers neither another number nor a point."""
    if not points:
        return
    at = axis.transData.transform([(risk, value) for _, risk, value in points])
    scale = 72 / axis.figure.dpi  # offsets are in points
    taken = [tuple(place) for place in at * scale]
    for (number, risk, value), place in zip(points, at * scale, strict=True):
        spots = [place + np.array(offset) for offset in LABEL_PLACES]
        room = [min(float(np.hypot(*(spot - other))) for other in taken) for spot in spots]
        best = next((n for n, free in enumerate(room) if free >= LABEL_POINTS), int(np.argmax(room)))
        taken.append(tuple(spots[best]))
        axis.annotate(
            number,
            (risk, value),
            xytext=LABEL_PLACES[best],
            textcoords="offset points",
            fontsize=8,
            ha="center",
            va="center",
        )
