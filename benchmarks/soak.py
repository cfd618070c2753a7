"""Publish one small population again and again, and measure what grows: memory, files, bytes, ledger, CPU time.

    make soak                                            # 200 releases; writes docs/soak.svg and results/soak.json
    python -m benchmarks.soak --releases 20 --churn 0.2  # a short one of a population that people join and leave

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
import sqlalchemy as sa

from benchmarks import results
from benchmarks.plots import lines
from benchmarks.results import Bar

MOST_RATIO = 1.5
LEAST_GROWTH = 0.05
NAME = "soak"
FIRST = datetime.date(2026, 1, 1)
MEBIBYTE = 2**20
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
OF_ONE = ("rss_bytes", "open_files", "temporary_files", "cpu_seconds")


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
    for name, words in WORDS.items():
        values = [float(run[name]) for run in runs]
        ratio = ratio_of_halves(smooth(values) if name in OF_ONE else values)
        found.append(Bar(f"{words}, second half against first", ratio or 0.0, "≤", MOST_RATIO))
    return found


def count_below(directory: Path) -> tuple[int, int]:
    """Return files and bytes below a directory."""
    sizes = [file.stat().st_size for file in directory.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def rows_of(ledger: Path) -> int:
    """Return the rows of all tables of a ledger."""
    engine = sa.create_engine(f"sqlite:///{ledger}")
    try:
        with engine.connect() as db:
            names = sa.inspect(db).get_table_names()
            return sum(db.scalar(sa.text(f'SELECT count(*) FROM "{name}"')) or 0 for name in names)
    finally:
        engine.dispose()


def release_config(users: int, items: int, churn: float) -> Any:
    """Return the release: default settings, a small synthetic population."""
    from tasks.config import parse

    people = {"users": users, "items": items, "ratings_per_user": 25.0, "churn": churn}
    return parse({"release": {"name": NAME}, "source": {"format": "synthetic", "synthetic": people}})


def run(asked: argparse.Namespace, scratch: Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Make the releases one after the other and return the figures after each."""
    from tasks import pipeline
    from tasks.data.retention import sweep
    from tasks.errors import Refused
    from tasks.series.ledger import Ledger
    from tasks.store import Store

    config = release_config(asked.users, asked.items, asked.churn)
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
        published, private = (count_below(store.root / part) for part in ("published", "private"))
        ledgers = store.root / "private" / "ledger"
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
                "published_files": published[0],
                "published_bytes": published[1],
                "private_files": private[0],
                "private_bytes": private[1],
                "ledger_bytes": count_below(ledgers)[1],
                "ledger_rows": rows_of(ledgers / f"{NAME}.db"),
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
    for name, words in WORDS.items():
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
    """Draw every figure as a share of its last value over the number of releases."""
    shown = {}
    for name, words in WORDS.items():
        values = [float(run[name]) for run in runs]
        values = smooth(values) if name in OF_ONE else values
        if name not in ("open_files", "temporary_files"):
            shown[words] = [value / max(values[-1], 1e-9) for value in values]
    lines(path, shown, ylabel="share of the value after the last", command=command, xlabel="releases")


def main(given: list[str] | None = None) -> int:
    """Run the soak and return 0 where nothing grows faster than the number of releases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--items", type=int, default=80)
    parser.add_argument("--churn", type=float, default=0.0, help="share of people replaced each month")
    parser.add_argument("--days", type=int, default=3, help="between two snapshots")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where the store is made")
    parser.add_argument("--json", type=Path, metavar="FILE", default=results.DIRECTORY / "soak.json")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    asked = parser.parse_args(given)
    command = results.command("benchmarks.soak", asked, "releases", "users", "items", "churn", "days")
    os.environ.setdefault("MURMUR_WORKERS", "0")
    began = results.machine()
    for name in ("MURMUR_SECRET_FILE", "MURMUR_LEDGER", "MURMUR_STORE"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="murmur-soak-", dir=asked.scratch) as directory:
        runs = run(asked, Path(directory), lambda words: print(words, flush=True))
    print(show(runs))
    found = bars(runs)
    figures = {"command": command, "runs": runs, "bars": [bar.to_json() for bar in found]}
    results.write(asked.json, figures, began)
    if asked.plot:
        draw(runs, asked.plot, command)
    return results.verdict(found)


if __name__ == "__main__":
    sys.exit(main())
