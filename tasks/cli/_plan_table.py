"""Print the settings that `murmur plan` tried, in 80 columns."""

import textwrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.cli._words import percent
from tasks.studies.plan import words

WIDTH = 80


def show_plan(answer: dict[str, Any], out: Console) -> None:
    """Print a line for every trial, then what they mean."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    names = [key.rpartition(".")[2].replace("_", " ").replace("min ", "") for key in answer["axes"]]
    for name in (*names, "risk", "lost"):
        table.add_column(name, justify="right")
    table.add_column("verdict", overflow="fold")
    for trial in answer["trials"]:
        risk, lost = trial["worst_risk"], trial["lost"]
        colour = "green" if trial["passed"] else "red"
        table.add_row(
            *map(str, trial["values"].values()),
            "–" if risk is None else percent(risk),
            "–" if lost is None else f"{lost:.4f}",
            f"[{colour}]{escape(words.outcome(trial))}[/{colour}]",
        )
    out.print(table, width=min(WIDTH, out.width))
    _print_wrapped(out, words.verdict(answer), words.scope(answer))
    if said := words.other_ways(answer):
        _show_others(answer["others"], out)
        _print_wrapped(out, said)
    for key, text in (("page", "page: "), ("written", "written into ")):
        if answer.get(key):
            out.print(escape(f"{text}{answer[key]}"))


def _show_others(trials: list[dict[str, Any]], out: Console) -> None:
    """Print a line for every other way to release; their lists say more of their use than one loss could."""
    if not trials:
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("other way", overflow="fold")
    table.add_column("risk", justify="right")
    table.add_column("lost", justify="right")
    table.add_column("nDCG own/group/pop.", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for trial in trials:
        risk, lost = trial["worst_risk"], trial["lost"]
        colour = "green" if trial["passed"] else "red"
        said = "passed" if trial["passed"] else f"refused: {', '.join(trial['failed']) or trial['why']}"
        table.add_row(
            escape(trial["entry"]),
            "–" if risk is None else percent(risk),
            "–" if lost is None else f"{lost:.4f}",
            words.lists(trial),
            f"[{colour}]{escape(said)}[/{colour}]",
        )
    out.print(table, width=min(WIDTH, out.width))


def _print_wrapped(out: Console, *lines: str) -> None:
    for line in lines:
        out.print(escape("\n".join(textwrap.wrap(line, WIDTH))))
