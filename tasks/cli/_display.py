"""Print answers as tables on stdout and progress on stderr. One function per kind of answer."""

import contextlib
import textwrap
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tasks.cli._outlook_table import show_outlook
from tasks.progress import Progress as ProgressReport
from tasks.progress import log_progress
from tasks.studies.compare.plot import label

OUT = Console(highlight=False, soft_wrap=True)
if not OUT.is_terminal:
    OUT.width = 160  # a file or a pipe has no width of its own
ERR = Console(stderr=True, highlight=False)
UTILITY = {
    "rmse": "RMSE",
    "mae": "MAE",
    "ndcg_at_10": "nDCG@10",
    "recall_at_10": "Recall@10",
    "kendall_tau": "τ\nlists",
    "kendall_tau_rmse": "τ\nratings",
    "target_deviation_rmse": "own\nprofile",
}
FIGURE_WIDTH = 9  # of a column with a sign and three digits


@contextlib.contextmanager
def progress_bars() -> Iterator[ProgressReport]:
    """Show one bar per step with the time left on a terminal; elsewhere write log lines."""
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
    if "outlook" in result:
        show_outlook(result, OUT)
        return
    for key, value in result.items():
        if key in ("checks", "cells", "rows", "results", "advice", "larger_k"):  # the refusal says which k
            continue
        if key in ("releases", "budget", "problems"):
            _ledger_table(key, value)
            continue
        if isinstance(value, dict):
            _pairs(key, _sum_inner_runs(value) if key == "seconds" else value)
        elif value is not None:
            OUT.print(f"[bold]{escape(key)}[/bold]  {escape(_text(value))}")
    if result.get("rows"):
        _rows("first rows (users hidden)", result["rows"])
    if result.get("checks"):
        applicable = [check for check in result["checks"] if check.get("applicable", True)]
        _checks("checks", applicable)
        _checks("not applicable to this release", [c for c in result["checks"] if c not in applicable])
    if result.get("cells"):
        _rows("", result["cells"])
    if result.get("results"):
        _attacks(result["results"])
    if result.get("advice"):
        _rows("mention these items to match more users", result["advice"])


def _ledger_table(title: str, values: list[Any]) -> None:
    """Print rows of a ledger, or what is wrong with it."""
    if values:
        _rows(title, [one if isinstance(one, dict) else {"what is wrong": one} for one in values])


def _pairs(title: str, values: dict[str, Any]) -> None:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for key, value in values.items():
        table.add_row(escape(str(key)), escape(_text(value)))
    if values:
        OUT.print(table)


def _checks(title: str, checks: list[dict[str, Any]]) -> None:
    if not checks:
        return
    table = Table(title=title, title_justify="left")
    for column in ("check", "verdict", "observed", "interval", "threshold", "n", "what it says"):
        table.add_column(column)
    for check in checks:
        advisory = check["severity"] == "advisory"
        verdict = (
            "not applicable"
            if not check.get("applicable", True)
            else "[green]passed[/green]"
            if check["passed"]
            else "[yellow]advisory[/yellow]"
            if advisory
            else "[red]FAILED (void)[/red]"
            if check.get("void")
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


def _sum_inner_runs(seconds: dict[str, float]) -> dict[str, float]:
    """Return the CPU time of the steps, with one sum for each run inside a step ("shadow 2", "sybil opinions")."""
    total: dict[str, float] = {}
    for name, value in seconds.items():
        run, _, _ = name.rpartition(" ")
        total[run or name] = round(total.get(run or name, 0.0) + value, 3)
    return total


def _attacks(results: list[dict[str, Any]]) -> None:
    table = Table(title="success of the attack, by attacker knowledge", title_justify="left")
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
    """Print risk and utility of each method, the original last. Methods have numbers, which the legend explains.

    Every table fits into 80 columns: long text goes into the legend, further columns into a further table.
    """
    original = {"method": "original, names removed", "settings": {}, **result["original"]}
    rows = {str(number): row for number, row in enumerate([*result["rows"], original], start=1)}
    risks = Table(title=f"{result['dataset']}, {result['snapshot']}: risk", title_justify="left")
    for column in ("", "verdict", "worst risk", "by", "CPU-s"):
        risks.add_column(column)
    colours = {"published": "green", "refused": "red", "failed": "yellow"}
    for number, row in rows.items():
        status = row.get("status", "")
        # The seconds of the shadow run and of the runs with sybils are part of those of evaluate.
        spent = sum(
            s for step, s in row.get("seconds", {}).items() if not step.startswith(("shadow ", "sybil "))
        )
        risks.add_row(
            number,
            f"[{colours[status]}]{status}" if status else "",
            _figure(row["worst_risk"]),
            _text(row["worst_attack"]),
            f"{spent:,.0f}",
        )
    OUT.print(risks)
    utility = Table(title="utility", title_justify="left")
    for column in ("", *UTILITY.values()):
        utility.add_column(column)
    for number, row in rows.items():
        utility.add_row(number, *(_figure(row["utility"].get(name)) for name in UTILITY))
    OUT.print(utility)
    attacks = list(result["original"]["risk"])
    numbers = list(rows)
    room = max(1, (OUT.width - 4 - max(map(len, attacks), default=0)) // FIGURE_WIDTH)
    for some in (numbers[start : start + room] for start in range(0, len(numbers), room)):
        bounds = Table(title="upper bound of each attack's success", title_justify="left")
        if any(rows[number].get("not_applicable") for number in some):
            bounds.caption, bounds.caption_justify = "n/a: not applicable to this release", "left"
        for column in ("attack", *some):
            bounds.add_column(column)
        for name in attacks:
            bounds.add_row(escape(name), *(_bound(rows[number], name) for number in some))
        OUT.print(bounds)
    for number, row in rows.items():
        words = label(row)
        if row.get("failed"):
            words += f": {row['status']} by {', '.join(row['failed'])}"
        elif row.get("why"):
            words += f": {row['status']}, {row['why']}"
        lines = textwrap.wrap(words, OUT.width - 4, break_on_hyphens=False)
        OUT.print(escape(f"{number:>2}  " + "\n    ".join(lines)))


def _bound(row: dict[str, Any], attack: str) -> str:
    return "n/a" if attack in row.get("not_applicable", ()) else _figure(row["risk"].get(attack))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


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
