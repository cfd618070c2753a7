"""Print the outlook of a series, in 80 columns."""

import textwrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDTH = 80
COLUMNS = {
    "snapshot": "snapshot",
    "newcomers": "new",
    "cohort": "cohort",
    "released": "released",
    "share_of_eligible": "share",
    "waiting": "waiting",
    "age_months": "age",
    "loss": "loss",
}
LEGEND = (
    "new: people who come; cohort: who is released with it, – too few (they wait); share: of the eligible people; "
    "age: mean age of the ratings behind the profiles, in months; loss: mean of the cohorts' losses, 0 as good as "
    "the model, 1 as bad as random groups. Nobody's profile is ever renewed: it ages, and its loss stays."
)


def show_outlook(answer: dict[str, Any], out: Console) -> None:
    """Print what the outlook is based on, the coming releases, and when a new population is worthwhile."""
    so_far = f"{answer['released_so_far']:,} people released so far"
    _print(
        out, f"population {answer['population']}: {so_far}; a cohort needs {answer['min_cohort']:,} people"
    )
    _print(out, f"{answer['newcomers_per_month']:,} newcomers a month: {answer['rate_from']}")
    _print(out, f"loss: {answer['loss_from']}")
    table = Table(box=SIMPLE_HEAD)
    for key, title in COLUMNS.items():
        table.add_column(title, justify="left" if key == "snapshot" else "right")
    for row in answer["outlook"]:
        table.add_row(*(_cell(key, row[key]) for key in COLUMNS))
    out.print(table)
    _print(out, LEGEND)
    advice = answer["new_population"]
    start = f"start one with {advice['start']}" if advice["start"] else "not in this time"
    _print(out, f"new population: {start}: {advice['why']}")


def _cell(key: str, value: Any) -> str:
    if value is None or (key == "cohort" and not value):
        return "–"
    if key == "snapshot":
        return value
    if key == "share_of_eligible":
        return f"{value:.1%}"
    return f"{value:.2f}" if key == "loss" else f"{value:,}"


def _print(out: Console, words: str) -> None:
    out.print(escape("\n".join(textwrap.wrap(words, WIDTH))))
