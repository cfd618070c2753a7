"""Render the templates of the pages in the style of the reports; every value is escaped."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

import checks

WIDTH, HEIGHT = 120.0, 28.0


def render(template: str, **values: Any) -> str:
    """Render one page."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [
                FileSystemLoader(Path(__file__).parent / "templates"),
                PrefixLoader({"report": FileSystemLoader(Path(checks.__path__[0], "report", "templates"))}),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": _count, "percent": _percent, "points": points}
    return environment


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    """Write a share with three significant digits."""
    if value is None:
        return "–"
    text = f"{100 * value:.3g}" if abs(value) < 1 else f"{100 * value:.0f}"
    return Markup("{}&nbsp;%").format(text.replace("-", "−"))


def points(values: Sequence[float | None]) -> str:
    """Return the points of a sparkline through the values that there are, left to right; empty for fewer than two."""
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(v for _, v in known), max(v for _, v in known)
    across, up = (WIDTH - 6) / (len(values) - 1), (HEIGHT - 6) / ((high - low) or 1)
    return " ".join(
        f"{3 + place * across:.1f},{HEIGHT - 3 - (value - low) * up:.1f}" for place, value in known
    )
