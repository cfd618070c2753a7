"""Fill the tables of docs/series.md and draw its plots: `python -m benchmarks.series_page`.

Reads results/series-*.json, which `python -m benchmarks.series … --json FILE` writes. Runs in the order of their
snapshots are drawn; of others (shuffled backfill, mode independent) there is a table alone.

*Staleness* is the age of the ratings behind a profile: the time between the snapshot that a group was first published
for and the snapshot of the release that repeats it, averaged over the released people.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.results import DIRECTORY

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "python -m benchmarks.series_page"
BEGIN, END = f"<!-- begin: {COMMAND} -->", "<!-- end -->"
DAYS_PER_MONTH = 365.25 / 12
PLOTS = {
    "coverage": "Share of the eligible people who are released",
    "waiting": "People who wait",
    "staleness": "Mean age of the ratings behind a profile, in months",
    "loss": "Loss of the new cohort's groups as a share of random groups' loss",
    "classes": "Sizes of the classes of people who are alike in all releases so far",
}

HEAD = """\
Made by `python -m benchmarks.series_page` from runs of `python -m benchmarks.series` (with `--data DIR`: MovieLens 1M
by month from April 2000; without: the synthetic source), defaults, one secret each. *Loss* is that of the new cohort's
groups against a model of the same cohort, as a share of what random groups lose (the shadow run of `evaluate`); it is
not the loss over everybody released, which is above. *Staleness* is the mean age of the ratings behind a profile.
Classes are counted by a script that shares no code with pipeline and gate.
"""
MISSING = "Not measured yet: `python -m benchmarks.series --json benchmarks/results/series-….json`.\n"

Run = dict[str, Any]


def read_runs(directory: Path = DIRECTORY) -> dict[str, Run]:
    """Return the runs by their labels, in the order of the files' names."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("series-*.json"))]
    runs = [
        run for run in runs if "mode" in run
    ]  # other benchmarks of series write files of the same pattern
    return {_label(run): {**run, "snapshots": [_offered(line) for line in run["snapshots"]]} for run in runs}


def _offered(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line in which a snapshot that was not published has no released people: its newcomers wait."""
    if line["status"] == "published":
        return line
    waiting = (line.get("waiting") or 0) + (line.get("cohort") or 0)
    return {**line, "people": 0, "groups": 0, "items": 0, "share_of_eligible": 0.0, "waiting": waiting}


def _label(run: Run) -> str:
    words = [run.get("data", "MovieLens 1M"), f"k = {run['k']}"]
    words += [] if run["mode"] == "sticky" else [run["mode"]]
    words += [] if _in_order(run) else ["backfill " + ", ".join(one["snapshot"] for one in run["snapshots"])]
    return ", ".join(words)


def _in_order(run: Run) -> bool:
    days = [one["snapshot"] for one in run["snapshots"]]
    return days == sorted(days)


def staleness(lines: Sequence[dict[str, Any]]) -> list[float]:
    """Return the mean age in months at each snapshot of a run in chronological order; NaN: nothing is published.

    The cohort of a refused release waits, and is part of a later one.
    """
    cohorts: list[tuple[datetime.date, int]] = []
    found = []
    for line in lines:
        day = datetime.date.fromisoformat(line["snapshot"])
        published = line["status"] == "published"
        if published and line["cohort"]:
            cohorts.append((day, line["cohort"]))
        people = sum(size for _, size in cohorts)
        ages = sum(size * (day - begun).days for begun, size in cohorts)
        found.append(ages / people / DAYS_PER_MONTH if published and people else math.nan)
    return found


def loss(line: dict[str, Any]) -> float:
    """Return the loss of a cohort's groups as a share of random groups' loss; NaN: no cohort."""
    known = line.get("utility") or {}
    wanted = ("target_deviation_rmse", "original_rmse", "random_group_rmse")
    if line["status"] != "published" or not line["cohort"] or not all(name in known for name in wanted):
        return math.nan
    own, model, random = (known[name] for name in wanted)
    return (own - model) / (random - model)


def page(runs: dict[str, Run]) -> str:
    """Return what stands between the markers."""
    if not runs:
        return MISSING
    text = [HEAD]
    text += [f"![{title}](series/{name}.svg)\n" for name, title in PLOTS.items() if _drawn(runs)]
    for label, run in runs.items():
        text += [
            f"**{label}**, {len(run['snapshots'])} snapshots; "
            f"smallest class of all releases: {run['smallest_class']}.\n",
            _table(run),
        ]
    return "\n".join(text)


def _drawn(runs: dict[str, Run]) -> dict[str, Run]:
    return {label: run for label, run in runs.items() if run["mode"] == "sticky" and _in_order(run)}


def _table(run: Run) -> str:
    ages = staleness(run["snapshots"]) if _in_order(run) else [math.nan] * len(run["snapshots"])
    head = ["snapshot", "newcomers", "released", "of eligible", "waiting", "groups", "items"]
    head += ["staleness, months", "loss, share", "CPU-s", "verdict"]
    rows = [head, ["---", *["---:"] * (len(head) - 2), "---"]]
    for line, age in zip(run["snapshots"], ages, strict=True):
        share = line.get("share_of_eligible")
        rows.append(
            [
                line["snapshot"],
                *(_count(line.get(name)) for name in ("cohort", "people")),
                "" if share is None else f"{share:.1%}",
                *(_count(line.get(name)) for name in ("waiting", "groups", "items")),
                _decimal(age, 1),
                _decimal(loss(line), 2),
                _count(round(line.get("cpu_seconds") or 0)),
                line["status"] + (f" by {', '.join(line['failed'])}" if line.get("failed") else ""),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _decimal(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def draw(runs: dict[str, Run], directory: Path) -> None:
    """Draw all plots of the runs in chronological order."""
    lines = {label: run["snapshots"] for label, run in _drawn(runs).items()}
    if not lines:
        return

    def plot(name: str, values: dict[str, list[float]], **more: Any) -> None:
        path = directory / f"{name}.svg"
        plots.lines(path, values, ylabel=_ylabel(name), command=COMMAND, xlabel="monthly snapshot", **more)

    def each(key: str) -> dict[str, list[float]]:
        return {label: [_number(one.get(key)) for one in own] for label, own in lines.items()}

    plot("coverage", each("share_of_eligible"), limits={"goal": 0.95})
    plot("waiting", each("waiting"))
    plot("staleness", {label: staleness(own) for label, own in lines.items()})
    plot("loss", {label: [loss(one) for one in own] for label, own in lines.items()})
    means = {
        label: [one["people"] / one["groups"] if one.get("groups") else math.nan for one in own]
        for label, own in lines.items()
    }
    ends = {
        label: tuple(
            [_number((one.get("class_sizes") or (None, None))[side]) for one in own] for side in (0, 1)
        )
        for label, own in lines.items()
    }
    limits = {f"k = {k}": float(k) for k in sorted({run["k"] for run in _drawn(runs).values()})}
    plot("classes", means, limits=limits, bands=ends)


def _ylabel(name: str) -> str:
    return {
        "coverage": "released / eligible",
        "waiting": "people",
        "staleness": "months",
        "loss": "share of random groups' loss",
        "classes": "people (mean; band: smallest, largest)",
    }[name]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def fill(text: str, part: str) -> str:
    """Return a page with `part` between the markers."""
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"docs/series.md must contain {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{part}\n{END}{after}"


def main() -> int:
    """Write the page and its plots."""
    runs = read_runs()
    path = DOCS / "series.md"
    path.write_text(fill(path.read_text(encoding="utf-8"), page(runs)), encoding="utf-8")
    draw(runs, DOCS / "series")
    return 0


if __name__ == "__main__":
    sys.exit(main())
