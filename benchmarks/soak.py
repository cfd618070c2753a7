"""Publish one small population again and again, and measure what grows: memory, files, bytes, ledger, CPU time.

    make soak                                            # 200 releases; writes docs/soak.svg and results/soak.json
    python -m benchmarks.soak --releases 20 --churn 0.2  # a short one of a population that people join and leave
    python -m benchmarks.soak --stack 30                 # runs of a DAG in the embedded stack (soak_stack.py)

Every release goes through the whole pipeline, gate included, in one process, so that memory which a release leaves
behind is seen. After each release its intermediate results are removed, as `murmur clean` does.

A figure is linear if it grows as much over the second half of the releases as over the first; one that grows with the
square of their number grows three times as much. The limit was fixed at 1.5 before the first run. Of a figure that
grows by less than a twentieth in all, the ratio says nothing, and it is called constant. `of all` are sums over all
releases, `of one` is what a single release takes.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import results, soak_stack
from benchmarks.plots import lines
from benchmarks.results import Bar
from benchmarks.soak_figures import FIRST, MEBIBYTE, NAME, count_below, figures_of, release_tables

MOST_RATIO = 1.5
LEAST_GROWTH = 0.05
SMOOTHED = 11  # releases: the median of so many in place of each, for figures of one release
WORDS = {
    "published_bytes": "published, bytes of all",
    "published_files": "published, files of all",
    "private_bytes": "private, bytes of all",
    "private_files": "private, files of all",
    "ledger_bytes": "ledger, bytes of all",
    "ledger_rows": "ledger, rows of all",
    "rss_bytes": "memory of the process",
    "open_files": "open files of the process",
    "temporary_files": "temporary files",
    "cpu_seconds": "CPU seconds of one release",
}
IN_THE_STACK = {  # what is counted instead of the figures of one process
    "airflow_bytes": "memory of Airflow's processes",
    "dask_bytes": "memory of Dask's processes",
    "postgres_bytes": "memory of PostgreSQL's processes",
    "airflow_open_files": "open files of Airflow's processes",
    "dask_open_files": "open files of Dask's processes",
    "postgres_open_files": "open files of PostgreSQL's processes",
    "processes": "processes",
    "temporary_files": "temporary files",
    "database_bytes": "Airflow's database, bytes of all",
    "database_rows": "Airflow's database, rows of all",
    "log_bytes": "logs, bytes of all",
    "log_files": "logs, files of all",
    "cpu_seconds": "CPU seconds of the steps of one release",
}
OF_ONE = (
    "rss_bytes", "airflow_bytes", "dask_bytes", "postgres_bytes", "open_files", "airflow_open_files", "dask_open_files",
    "postgres_open_files", "processes", "temporary_files", "cpu_seconds",
)  # fmt: skip


def is_stack(runs: list[dict[str, Any]]) -> bool:
    return "airflow_bytes" in runs[0]


def words_of(runs: list[dict[str, Any]]) -> dict[str, str]:
    """Return the figures that were counted, with their names."""
    known = WORDS | IN_THE_STACK if is_stack(runs) else WORDS
    return {name: words for name, words in known.items() if name in runs[0]}


def ratio_of_halves(values: Sequence[float]) -> float | None:
    """Return growth over the second half by growth over the first; None: the figure is constant."""
    first, middle, last = values[0], values[len(values) // 2], values[-1]
    if last - first <= LEAST_GROWTH * max(abs(first), 1e-9):
        return None
    return (last - middle) / (middle - first) if middle > first else float("inf")


def smooth(values: Sequence[float]) -> list[float]:
    """Return moving medians: one slow release among many says nothing about growth."""
    reach = SMOOTHED // 2
    return [median(values[max(0, n - reach) : n + reach + 1]) for n in range(len(values))]


def bars(runs: list[dict[str, Any]]) -> list[Bar]:
    """Return a bar for every figure: none may grow faster than the number of releases."""
    found = [
        Bar("releases published", float(sum(run["status"] == "published" for run in runs)), "≥", len(runs))
    ]
    for name, words in words_of(runs).items():
        values = [float(run[name]) for run in runs]
        ratio = ratio_of_halves(smooth(values) if name in OF_ONE else values)
        found.append(Bar(f"{words}, second half against first", ratio or 0.0, "≤", MOST_RATIO))
    return found


def run(asked: argparse.Namespace, scratch: Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Make the releases one after the other and return the figures after each."""
    from tasks import pipeline
    from tasks.config import parse
    from tasks.data.retention import sweep
    from tasks.errors import Refused
    from tasks.series.ledger import Ledger
    from tasks.store import Store

    config = parse(release_tables(asked.users, asked.items, asked.churn))
    store, process, found = Store(scratch / "store"), psutil.Process(), []
    temporary = scratch / "temporary"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    for number in range(1, asked.releases + 1):
        snapshot = FIRST + datetime.timedelta(days=asked.days * (number - 1))
        cpu, wall = time.process_time(), time.monotonic()
        try:
            pipeline.run(config, snapshot, store, progress=lambda *_: None)
            status = "published"
        except Refused:
            status = "refused"
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        sweep(store, NAME, 0)
        gc.collect()
        with Ledger.open(store, NAME) as ledger:
            groups = len(ledger.groups())
        found.append(
            {
                "release": number,
                "snapshot": snapshot.isoformat(),
                "status": status,
                "groups": groups,
                "cpu_seconds": round(cpu, 3),
                "wall_seconds": round(wall, 3),
                "rss_bytes": process.memory_info().rss,
                "open_files": process.num_fds(),
                "temporary_files": count_below(temporary)[0],
                **figures_of(store.root),
            }
        )
        if number % 10 in (0, 1):
            say(
                f"{number:>4} {status}  {groups} groups  {cpu:.1f} CPU-s  {found[-1]['rss_bytes'] / MEBIBYTE:.0f} MiB"
            )
    return found


def show(runs: list[dict[str, Any]]) -> str:
    """Tabulate every figure after the first, the middle and the last release, with the growth of the two halves."""
    marks = [runs[0], runs[len(runs) // 2], runs[-1]]
    rows = [["", *(f"after {mark['release']}" for mark in marks), "2nd half / 1st"]]
    for name, words in words_of(runs).items():
        values = [float(run[name]) for run in runs]
        values = smooth(values) if name in OF_ONE else values
        ratio = ratio_of_halves(values)
        at = [values[0], values[len(values) // 2], values[-1]]
        scale = MEBIBYTE if name.endswith("_bytes") else 1
        unit = " (MiB)" if scale > 1 else ""
        cells = [f"{value / scale:,.2f}" if scale > 1 else results.number(value) for value in at]
        rows.append([words + unit, *cells, "constant" if ratio is None else f"{ratio:.2f}"])
    return results.table(rows)


def draw(runs: list[dict[str, Any]], path: Path, command: str) -> None:
    """Draw figures as shares of their last values over the number of releases; of the stack all that are bytes."""
    shown = {}
    for name, words in words_of(runs).items():
        values = [float(run[name]) for run in runs]
        values = smooth(values) if name in OF_ONE else values
        drawn = (
            name.endswith("_bytes")
            if "airflow_bytes" in runs[0]
            else name not in ("open_files", "temporary_files")
        )
        if drawn:
            shown[words] = [value / max(values[-1], 1e-9) for value in values]
    lines(path, shown, ylabel="share of the value after the last", command=command, xlabel="releases")


def main(given: list[str] | None = None) -> int:
    """Run the soak and return 0 where nothing grows faster than the number of releases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--stack", type=int, metavar="RUNS", help="so many releases, by Airflow")
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--items", type=int, default=80)
    parser.add_argument("--churn", type=float, default=0.0, help="share of people replaced each month")
    parser.add_argument("--days", type=int, default=3, help="between two snapshots")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where the store is made")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    asked = parser.parse_args(given)
    number = ("stack",) if asked.stack else ("releases",)
    command = results.command("benchmarks.soak", asked, *number, "users", "items", "churn", "days")
    os.environ.setdefault("MURMUR_WORKERS", "0")
    began = results.machine()
    for name in ("MURMUR_SECRET_FILE", "MURMUR_LEDGER", "MURMUR_STORE"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="murmur-soak-", dir=asked.scratch) as directory:
        make = soak_stack.run if asked.stack else run
        runs = make(asked, Path(directory), lambda words: print(words, flush=True))
    print(show(runs))
    found = bars(runs)
    figures = {"command": command, "runs": runs, "bars": [bar.to_json() for bar in found]}
    results.write(
        asked.json or results.DIRECTORY / f"soak{'-stack' * bool(asked.stack)}.json", figures, began
    )
    if asked.plot:
        draw(runs, asked.plot, command)
    return results.verdict(found)


if __name__ == "__main__":
    sys.exit(main())
