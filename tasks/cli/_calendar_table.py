"""Print the calendar of each release, in 80 columns."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.series.calendar import WORDS

COLOURS = {
    "published": "green",
    "refused": "red",
    "missing": "red",
    "approval": "yellow",
    "unfinished": "yellow",
}
SHOWN = 24  # the latest; --json has all


def show_calendars(answer: dict[str, Any], out: Console) -> None:
    """Print one table for each release, and the release files that cannot be used."""
    for one in answer["calendars"]:
        _show(one, out)
    for error in answer["unusable"]:
        out.print(f"[red]{escape(error['where'])}[/red]: {escape(error['what'])}")


def _show(calendar: dict[str, Any], out: Console) -> None:
    counts = ", ".join(f"{number} {state}" for state, number in calendar["counts"].items() if number)
    schedule = calendar["schedule"] or "no schedule"
    out.print(f"[bold]{escape(calendar['release'])}[/bold] ({schedule}): {counts or 'no snapshot yet'}")
    snapshots = calendar["snapshots"]
    if len(snapshots) > SHOWN:
        out.print(f"the latest {SHOWN} of {len(snapshots)}; --json has all")
    if not snapshots:
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("snapshot", no_wrap=True)
    table.add_column("state", overflow="fold")
    for day in snapshots[-SHOWN:]:
        words = WORDS[day["state"]]
        colour = COLOURS.get(day["state"])
        shown = f"[{colour}]{words}[/{colour}]" if colour else words
        why = ", ".join(day["failed"]) or day["note"]
        by_hand = "" if day["scheduled"] or calendar["schedule"] is None else " (not on the schedule)"
        table.add_row(day["directory"], shown + by_hand + (f": {escape(why)}" if why else ""))
    out.print(table, width=min(out.width, 80))
