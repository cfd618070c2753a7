"""Render the Jinja2 templates of a release's report and README, with numbers as people read them."""

import html
import math
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

NOT_STATED = "not stated"
SMALLEST = 0.001  # of a figure with its unit; below it three digits would be noise
SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"


def render_html(template: str, **context: Any) -> str:
    """Render an HTML template; every value that is not `Markup` is escaped."""
    return _environment(autoescape=True).get_template(template).render(context)


def render_markdown(template: str, **context: Any) -> str:
    """Render a Markdown template; values cannot open an HTML tag, and quotation marks stay readable."""
    return _environment(autoescape=False).get_template(template).render(context)


def number(value: float | None) -> str:
    """Return a number with three significant digits and without exponent; whole numbers above that stay exact."""
    if value is None or not math.isfinite(value):
        return NOT_STATED
    size = abs(value)
    if size and size < SMALLEST:
        return f"below {SMALLEST:g}" if value > 0 else f"above {MINUS}{SMALLEST:g}"
    text = f"{size:,.0f}" if size >= 999.5 else f"{size:.3g}"
    return f"{MINUS}{text}" if value < 0 else text


def decimal(value: float) -> str:
    """Return a measured number with exactly three significant digits, so that those in a column compare."""
    return f"{value:#.3g}".rstrip(".")


def share(value: float | None) -> str:
    """Return a share in per cent."""
    text = number(None if value is None else 100 * value)
    return text if text == NOT_STATED else f"{text}{SPACE}%"


def quantity(value: float | None, unit: str) -> str:
    """Return a figure with its unit: "%", nothing, or what is counted (in the plural)."""
    if unit == "%":
        return share(value)
    text = number(value)
    if not unit or text == NOT_STATED:
        return text
    return f"{text}{SPACE}{_singular(unit) if value == 1 else unit}"


def _singular(unit: str) -> str:
    return {"people": "person"}.get(unit, unit.removesuffix("s"))


def with_code(text: str) -> Markup:
    """Return a text in which `…` is set as code."""
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


@cache
def _environment(*, autoescape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("checks.report"),
        autoescape=autoescape,  # noqa: S701 - HTML is escaped here, Markdown by `_escape_tags`
        finalize=None if autoescape else _escape_tags,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["odds"] = _odds
    environment.filters |= {
        "number": number,
        "share": share,
        "quantity": quantity,
        "percent": _percent,
        "count": _count,
        "coded": with_code,
        "width": _width,
    }
    return environment


def _escape_tags(value: object) -> str:
    return html.escape(str(value), quote=False)


def _percent(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.1%}"


def _odds(epsilon: float) -> str:
    """Return the largest odds after reading a release, of odds of one to one before, rounded up."""
    odds = math.exp(min(epsilon, 700.0))
    digits = max(0, 2 - math.floor(math.log10(odds)))
    return f"{math.ceil(odds * 10**digits) / 10**digits:,.{digits}f}"


def _count(value: int) -> str:
    return f"{value:,}"


def _width(part: float) -> str:
    """Return a part of a drawing's width, for SVG."""
    return f"{100 * part:.2f}%"
