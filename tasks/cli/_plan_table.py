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
    for line in (words.verdict(answer), words.scope(answer)):
        out.print(escape("\n".join(textwrap.wrap(line, WIDTH))))
    for key, text in (("page", "page: "), ("written", "written into ")):
        if answer.get(key):
            out.print(escape(f"{text}{answer[key]}"))
