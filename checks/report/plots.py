"""Draw plots as inline SVG: the same bytes for the same figures, in the colours of the surrounding page."""

import io
import re
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

INK, ACCENT, SECOND = "#010203", "#020304", "#030405"  # placeholders; the page's style gives the real colours
_COLOURS = {INK: "currentColor", ACCENT: "var(--accent)", SECOND: "var(--second)"}


def histogram(
    edges: np.ndarray, series: dict[str, np.ndarray], *, title: str, x: str, y: str, name: str
) -> Markup:
    """Draw the shares per bin as one step line per series; the first is filled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.0))
    axes = figure.add_subplot()
    for position, (label, shares) in enumerate(series.items()):
        filled = position == 0
        colour = ACCENT if filled else (SECOND if position == 1 else INK)
        axes.stairs(
            shares, edges, label=label, fill=filled, color=colour, linewidth=1.8, linestyle="-:"[position > 1]
        )
    if len(series) > 1:
        axes.legend(frameon=False, labelcolor=INK)
    return _svg(figure, title, x, y, name)


def bars(labels: Sequence[str], values: Sequence[float], *, title: str, x: str, name: str) -> Markup:
    """Draw one horizontal bar per label with its figure beside it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.5 + 0.42 * len(labels)))
    axes = figure.add_subplot()
    drawn = axes.barh(range(len(labels)), values, color=ACCENT, height=0.6)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.bar_label(drawn, fmt="%.4f", padding=3, color=INK)
    axes.set_xlim(0, max([*values, 1e-9]) * 1.18)
    return _svg(figure, title, x, "", name)


def _svg(figure: object, title: str, x: str, y: str, name: str) -> Markup:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    assert isinstance(figure, Figure)
    axes = figure.axes[0]
    axes.set_title(title, color=INK, fontsize=11, loc="left")
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.tick_params(colors=INK)
    if x == "people":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    out = io.StringIO()
    # The salt makes the ids of clip paths the same in every run, and different for the plots of one page.
    with mpl.rc_context(
        {"svg.hashsalt": f"murmuration {name}", "svg.fonttype": "none", "font.family": "sans-serif"}
    ):
        figure.tight_layout()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue())


def _inline(svg: str) -> Markup:
    """Drop the XML prologue, the metadata and the fixed size, and use the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", svg, count=2)
    for placeholder, colour in _COLOURS.items():
        svg = svg.replace(placeholder, colour)
    return Markup(svg.strip())  # noqa: S704 - matplotlib wrote it from our own words and numbers
