"""Print answers as tables on stdout and progress on stderr. One function per kind of answer."""

import contextlib
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tasks.cli._calendar_table import show_calendars
from tasks.cli._check_tables import show_attacks, show_checks
from tasks.cli._outlook_table import show_outlook
from tasks.cli._plan_table import show_plan
from tasks.cli._words import name_of, text, value_of
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
RANKING = {
    "own_history_ndcg": "own\nhistory",
    "group_history_ndcg": "group's\nprofile",
    "popularity_ndcg": "popularity",
    "original_ndcg": "original",
    "own_history_recall": "own\nhistory",
    "group_history_recall": "group's\nprofile",
    "popularity_recall": "popularity",
    "original_recall": "original",
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


def show_end(lines: tuple[str, ...], *, refused: bool = False) -> None:
    """Print the few lines in which a command says how it ended; a refusal goes to stderr, as every error."""
    for line in lines:
        (ERR if refused else OUT).print(line, soft_wrap=True)


def show(result: dict[str, Any]) -> None:
    """Print an answer: its plain values, then its tables."""
    if "original" in result:
        _comparison(result)
        return
    if "calendars" in result:
        show_calendars(result, OUT)
        return
    if "trials" in result:
        show_plan(result, OUT)
        return
    if "outlook" in result:
        show_outlook(result, OUT)
        return
    _values(result)
    if result.get("rows"):
        _rows("first rows (users hidden)", result["rows"])
    if result.get("checks"):
        applicable = [check for check in result["checks"] if check.get("applicable", True)]
        show_checks("checks", applicable, OUT)
        _not_applicable([check for check in result["checks"] if check not in applicable])
    if result.get("cells"):
        _rows("", result["cells"])
    if result.get("results"):
        show_attacks(result["results"], OUT)
    if result.get("advice"):
        _rows("mention these items to match more users", result["advice"])


def _values(result: dict[str, Any]) -> None:
    """Print the values of an answer that need no table of several columns."""
    for key, value in result.items():
        if key in ("checks", "cells", "rows", "results", "advice", "larger_k"):  # the refusal says which k
            continue
        if key in ("releases", "budget", "problems", "log", "keys", "approvers") and isinstance(value, list):
            _ledger_table(key, value)
            continue
        if key == "notes":
            for note in value:
                OUT.print(f"[yellow]note[/yellow]  {escape(note)}")
        elif key == "spent":
            _privacy_budget(value)
        elif isinstance(value, dict):
            _pairs(key, _shown(key, value))
        elif value is not None:
            OUT.print(f"[bold]{escape(name_of(key))}[/bold]  {escape(value_of(key, value))}")


def _shown(key: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return what is printed of an object: inner runs as one sum each, and no parts of the figures of ranking."""
    if key == "seconds":
        return _sum_inner_runs(value)
    if key == "utility" and value.get("ranking"):
        ranking = {name: found for name, found in value["ranking"].items() if name in RANKING}
        return {name: found for name, found in value.items() if name != "ranking"} | ranking
    return value


def _ledger_table(title: str, values: list[Any]) -> None:
    """Print rows of a ledger, or what is wrong with it."""
    if values:
        _rows(title, [one if isinstance(one, dict) else {"what is wrong": one} for one in values])


def _privacy_budget(spent: dict[str, Any] | None) -> None:
    """Print what was spent of a privacy budget, by period and in all; None: no release has a budget."""
    if spent is not None:
        _rows("privacy budget", [*spent["periods"], spent["lifetime"]])
        for words in [*spent["changes"], spent["note"]]:
            OUT.print(escape(words))


def _pairs(title: str, values: dict[str, Any]) -> None:
    table = Table(title=name_of(title), title_justify="left", show_header=False, box=None)
    for key, value in values.items():
        shown = key if title == "seconds" else name_of(key, title)
        table.add_row(escape(shown), escape(value_of(key, value, title)))
    if values:
        OUT.print(table)


def _not_applicable(checks: list[dict[str, Any]]) -> None:
    """Print the checks that do not apply; one line for all that do not for the same reason."""
    said = Counter(check["detail"] for check in checks)
    for words, times in said.items():
        if times > 1:
            names = ", ".join(check["name"] for check in checks if check["detail"] == words)
            OUT.print(f"[bold]not applicable[/bold]  {escape(names)}: {escape(words)}")
    show_checks(
        "not applicable to this release", [check for check in checks if said[check["detail"]] == 1], OUT
    )


def _sum_inner_runs(seconds: dict[str, float]) -> dict[str, float]:
    """Return the CPU time of the steps, with one sum for each run inside a step ("shadow 2", "sybil opinions")."""
    total: dict[str, float] = {}
    for name, value in seconds.items():
        run, _, _ = name.rpartition(" ")
        total[run or name] = round(total.get(run or name, 0.0) + value, 3)
    return total


def _comparison(result: dict[str, Any]) -> None:
    """Print risk and utility of each method, the original last. Methods have numbers, which the legend explains.

    Every table fits into 80 columns: long text goes into the legend, further columns into a further table.
    """
    original = {"method": "original, names removed", "settings": {}, **result["original"]}
    rows = {str(number): row for number, row in enumerate([*result["rows"], original], start=1)}
    risks = Table(title=f"{result['dataset']}, {result['snapshot']}: risk", title_justify="left")
    for column in ("", "verdict", "worst risk", "by", "CPU-s"):
        risks.add_column(column)
    colours = {"passed": "green", "refused": "red", "failed": "yellow"}
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
            text(row["worst_attack"]),
            f"{spent:,.0f}",
        )
    OUT.print(risks)
    utility = Table(title="utility", title_justify="left")
    for column in ("", *UTILITY.values()):
        utility.add_column(column)
    for number, row in rows.items():
        utility.add_row(number, *(_figure(row["utility"].get(name)) for name in UTILITY))
    OUT.print(utility)
    for measure, ending in (("nDCG@10", "_ndcg"), ("Recall@10", "_recall")):
        title = f"{measure} of what is learnt from the release and asked with"
        ranking = Table(title=title, title_justify="left")
        names = [name for name in RANKING if name.endswith(ending)]
        for column in ("", *(RANKING[name] for name in names)):
            ranking.add_column(column)
        for number, row in rows.items():
            found = row["utility"].get("ranking") or {}
            ranking.add_row(number, *(_figure(found.get(name)) for name in names))
        OUT.print(ranking)
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
        table.add_column(name_of(str(column)))
    for row in rows:
        table.add_row(*(escape(value_of(key, value)) for key, value in row.items()))
    OUT.print(table)
