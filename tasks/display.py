"""What a person sees: tables on stdout, progress on stderr. One function per kind of answer."""

import contextlib
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tasks.progress import Progress as ProgressReport
from tasks.progress import log_progress

OUT = Console(highlight=False, soft_wrap=True)
if not OUT.is_terminal:
    OUT.width = 160  # in a file or a pipe there is no edge to wrap at, only readers
ERR = Console(stderr=True, highlight=False)


@contextlib.contextmanager
def progress_bars() -> Iterator[ProgressReport]:
    """A bar per step with time left, on a terminal; elsewhere lines in the log."""
    if not ERR.is_terminal:
        yield log_progress
        return
    columns = (TextColumn("{task.description:>16}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=ERR, transient=True) as bars:
        known: dict[str, Any] = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in known:
                known[step] = bars.add_task(step, total=total)
            bars.update(known[step], completed=done, total=total)

        yield report


def show(result: dict[str, Any]) -> None:
    """Print an answer: its plain values, then its tables."""
    if "original" in result:
        _comparison(result)
        return
    for key, value in result.items():
        if key in ("checks", "cells", "rows", "results", "advice"):
            continue
        if isinstance(value, dict):
            _pairs(key, value)
        elif value is not None:
            OUT.print(f"[bold]{escape(key)}[/bold]  {escape(_text(value))}")
    if result.get("rows"):
        _rows("first rows (users hidden)", result["rows"])
    if result.get("checks"):
        _checks(result["checks"])
    if result.get("cells"):
        _rows("", result["cells"])
    if result.get("results"):
        _attacks(result["results"])
    if result.get("advice"):
        _rows("mention these, and look like more people", result["advice"])


def _pairs(title: str, values: dict[str, Any]) -> None:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for key, value in values.items():
        table.add_row(escape(str(key)), escape(_text(value)))
    if values:
        OUT.print(table)


def _checks(checks: list[dict[str, Any]]) -> None:
    table = Table(title="checks", title_justify="left")
    for column in ("check", "verdict", "observed", "95 % interval", "threshold", "n", "what it says"):
        table.add_column(column)
    for check in checks:
        advisory = check["severity"] == "advisory"
        verdict = (
            "[green]passed[/green]"
            if check["passed"]
            else "[yellow]advisory[/yellow]"
            if advisory
            else "[red]FAILED[/red]"
        )
        interval = "" if check["ci_low"] is None else f"{_text(check['ci_low'])} – {_text(check['ci_high'])}"
        table.add_row(
            escape(check["name"]),
            verdict,
            _text(check["observed"]),
            interval,
            _text(check["threshold"]),
            _text(check["n"]),
            escape(check["detail"]),
        )
    OUT.print(table)


def _attacks(results: list[dict[str, Any]]) -> None:
    table = Table(title="what the attack achieves, by what is known", title_justify="left")
    columns = (
        "knowledge",
        "n",
        "risk",
        "95 % interval",
        "baseline",
        "residual",
        "first person",
        "first record",
    )
    for column in (*columns, "more"):
        table.add_column(column)
    usual = {"attack", "target", "knowledge", "n", "successes", "risk", "ci_low", "ci_high", "baseline"}
    usual |= {"residual", "top", "group_top"}
    for found in results:
        more = {key: value for key, value in found.items() if key not in usual}
        table.add_row(
            escape(found["knowledge"]),
            _text(found["n"]),
            _text(found["risk"]),
            f"{_text(found['ci_low'])} – {_text(found['ci_high'])}",
            _text(found["baseline"]),
            _text(found["residual"]),
            _text(found["top"].get("1")),
            _text(found["group_top"].get("1")),
            escape(_text(more)),
        )
    OUT.print(table)


def _comparison(result: dict[str, Any]) -> None:
    """What each method risks and is worth, the original last; then every attack's bound."""
    measures = {"rmse": "RMSE", "mae": "MAE", "ndcg_at_10": "nDCG@10", "recall_at_10": "Recall@10"}
    measures |= {
        "kendall_tau": "τ lists",
        "kendall_tau_rmse": "τ ratings",
        "target_deviation_rmse": "own profile",
    }
    table = Table(title=f"{result['dataset']}, {result['snapshot']}", title_justify="left")
    for column in ("", "method", "verdict", "worst risk", "by", *measures.values(), "CPU-s", "refused by"):
        table.add_column(column)
    rows = [*result["rows"], {"method": "original, names removed", "settings": {}, **result["original"]}]
    colours = {"published": "[green]published[/green]", "refused": "[red]refused[/red]"}
    for number, row in enumerate(rows, start=1):
        # What the shadow run took is part of what evaluate took.
        spent = sum(s for step, s in row.get("seconds", {}).items() if not step.startswith("shadow "))
        table.add_row(
            str(number),
            escape(f"{row['method']} {_text(row['settings'])}".strip()),
            colours.get(row.get("status", ""), ""),
            _text(row["worst_risk"]),
            _text(row["worst_attack"]),
            *(_text(row["utility"].get(name)) for name in measures),
            f"{spent:.0f}",
            escape(", ".join(row.get("failed", ())) or row.get("why") or ""),
        )
    OUT.print(table)
    bounds = Table(title="upper bound of each attack", title_justify="left")
    for column in ("attack", *(str(number) for number in range(1, len(rows) + 1))):
        bounds.add_column(column)
    for name in result["original"]["risk"]:
        bounds.add_row(escape(name), *(_text(row["risk"].get(name)) for row in rows))
    OUT.print(bounds)


def _rows(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title or None, title_justify="left")
    for column in rows[0]:
        table.add_column(str(column))
    for row in rows:
        table.add_row(*(escape(_text(value)) for value in row.values()))
    OUT.print(table)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(part)}" for key, part in value.items())
    return str(value)
