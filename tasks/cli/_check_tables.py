"""Print the figures of checks and attacks, in 80 columns."""

import textwrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.cli._words import text

WIDTH = 80
PADDING = (0, 1, 0, 0)


def show_checks(title: str, checks: list[dict[str, Any]], out: Console) -> None:
    """Print a line of figures for every check, then what each says."""
    if not checks:
        return
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=PADDING, pad_edge=False)
    for column in ("check", "verdict", "observed", "interval", "threshold"):
        table.add_column(column)
    for check in checks:
        interval = "" if check["ci_low"] is None else f"{text(check['ci_low'])} – {text(check['ci_high'])}"
        figures = (text(check["observed"]), interval, text(check["threshold"]))
        table.add_row(escape(check["name"]), _verdict(check), *figures)
    out.print(table)
    for check in checks:
        words = f"{check['name']}: {check['detail']}"
        lines = textwrap.wrap(words, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        out.print(escape("\n".join(lines)))


def _verdict(check: dict[str, Any]) -> str:
    if not check.get("applicable", True):
        return "not applicable"
    if check["passed"]:
        return "[green]passed[/green]"
    if check["severity"] == "advisory":
        return "[yellow]advisory[/yellow]"
    return "[red]FAILED (void)[/red]" if check.get("void") else "[red]FAILED[/red]"


def show_attacks(results: list[dict[str, Any]], out: Console) -> None:
    """Print what an attack achieved with each kind of knowledge; --json has further figures."""
    title = "success of the attack, by attacker knowledge"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=PADDING, pad_edge=False)
    for column in ("knowledge", "n", "risk", "95 % interval", "by guessing", "right person"):
        table.add_column(column, overflow="fold")
    for found in results:
        table.add_row(
            escape(found["knowledge"]),
            text(found["n"]),
            text(found["risk"]),
            f"{text(found['ci_low'])} – {text(found['ci_high'])}",
            text(found["baseline"]),
            text(found["top"].get("1")),
        )
    out.print(table, width=min(WIDTH, out.width))
