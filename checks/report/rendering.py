"""Render the Jinja2 templates of a release's report and README."""

import html
import math
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_html(template: str, **context: Any) -> str:
    """Render an HTML template; every value that is not `Markup` is escaped."""
    return _environment(autoescape=True).get_template(template).render(context)


def render_markdown(template: str, **context: Any) -> str:
    """Render a Markdown template; values cannot open an HTML tag, and quotation marks stay readable."""
    return _environment(autoescape=False).get_template(template).render(context)


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
    environment.filters |= {"number": _number, "percent": _percent, "count": _count}
    return environment


def _escape_tags(value: object) -> str:
    return html.escape(str(value), quote=False)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.1%}"


def _count(value: int) -> str:
    return f"{value:,}"
