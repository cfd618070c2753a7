"""Plot Figures 3 to 9 of [Frankowski2006]."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.studies.svg_plots import open_pyplot, save_figure

Table = dict[str, dict[str, float | None]]

LEVELS = ("k=1", "k=5", "k=10", "k=100")
REASONS = ("1-identified", "not narrow", "no one possible", "misdirected")
SHOWN_LISTS = (
    "most popular first",
    *(f"at least {2**power} raters, rarest first" for power in (0, 4, 8, 10, 11)),
)


def plot(tables: dict[str, Table], directory: Path) -> None:
    """Write fig3.svg … fig9.svg."""
    pyplot = open_pyplot(directory)
    drawings: dict[str, tuple[Callable[[Any, dict[str, Table]], None], str]] = {
        "fig3": (_misses, "why Set Intersection identifies people or not"),
        "fig4": (_identification, "k-identification by algorithm"),
        "fig5": (_by_mentions, "1-identification by number of mentions"),
        "fig6": (_suppression("fig6", "items dropped"), "the owner drops rare items"),
        "fig7": (_suppression("fig7", "ratings dropped"), "the owner drops rare items' ratings"),
        "fig8": (_self_suppression, "people keep their rarest mentions to themselves"),
        "fig9": (_misdirection, "people mention what they have not rated"),
    }
    for name, (draw, title) in drawings.items():
        _, axis = pyplot.subplots(figsize=(6.5, 4))
        draw(axis, tables)
        axis.set_title(f"Fig {name[3:]}: {title}")
        axis.set_ylabel("share of people, %")
        axis.legend(fontsize="small")
        save_figure(pyplot, directory / f"{name}.svg")


def _misses(axis: Any, tables: dict[str, Table]) -> None:
    rows = {row: values for row, values in tables["fig3"].items() if row != "all"}
    labels = [row.removesuffix(" mentions") for row in rows]
    axis.stackplot(range(len(rows)), *([row[r] for row in rows.values()] for r in REASONS), labels=REASONS)
    axis.set_xticks(range(len(rows)), labels)
    axis.set_xlabel("mentions")


def _identification(axis: Any, tables: dict[str, Table]) -> None:
    for name, row in tables["fig4"].items():
        if "k=1" in row:
            axis.plot(LEVELS, [row[level] for level in LEVELS], marker="o", label=name)
    axis.set_xlabel("k")


def _by_mentions(axis: Any, tables: dict[str, Table]) -> None:
    for name, row in tables["fig5"].items():
        bins = {
            column.removesuffix(" mentions"): rate for column, rate in row.items() if column != "8+ mentions"
        }
        axis.plot(list(bins), list(bins.values()), marker="o", label=name)
    axis.set_xlabel("mentions")


def _suppression(name: str, along: str) -> Callable[[Any, dict[str, Table]], None]:
    def draw(axis: Any, tables: dict[str, Table]) -> None:
        rows = [row for row in tables[name].values() if "k=1" in row]
        for level in (*LEVELS, "exact-rating k=1"):
            label = level if level.startswith("exact") else f"scoring {level}"
            axis.plot([row[along] for row in rows], [row[level] for row in rows], marker=".", label=label)
        axis.set_xlabel(f"{along}, %")

    return draw


def _self_suppression(axis: Any, tables: dict[str, Table]) -> None:
    rows = tables["fig8"]
    for level in LEVELS:
        axis.plot(
            [row.split()[0] for row in rows], [row[level] for row in rows.values()], marker="o", label=level
        )
    axis.set_xlabel("own mentions suppressed, rarest first")


def _misdirection(axis: Any, tables: dict[str, Table]) -> None:
    for name in SHOWN_LISTS:
        rates = {
            column: rate for column, rate in tables["fig9"].get(name, {}).items() if column.endswith(" added")
        }
        if rates and None not in rates.values():
            axis.plot([int(column.split()[0]) for column in rates], list(rates.values()), label=name)
    axis.set_xlabel("misdirecting mentions added")
