"""Measure what each check of the gate costs: `python -m benchmarks.gate --data DIR --store DIR [--k 5] …`.

Makes a release of the ratings in --data (of Netflix's shape if the directory is empty), or takes the one that --store
holds, and runs the gate on it as `murmur audit` does. Prints CPU seconds, wall and peak memory of every check, the
Dask workers included. With --flame DIR a sampling profiler writes one flame chart per check (HTML, opens from disk);
the profiler sees this process alone, so charts are made without workers.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.netflix_shaped import ITEMS, RATINGS, USERS
from benchmarks.stages import SNAPSHOT, make_data, measure, release_config, say, warm_up

NAME = "gate"


class Meter:
    """Attribute CPU time, wall and peak memory to the checks, which the gate reports as they end."""

    def __init__(self, names: list[str], cpu_seconds: Callable[[], float], flames: Path | None) -> None:
        self.costs: list[dict[str, Any]] = []
        self._names = names
        self._cpu_seconds = cpu_seconds
        self._flames = flames
        self._profiler: Any = None

    def __enter__(self) -> Meter:
        from tasks.cli._peak_memory import PeakMemory

        self._memory = PeakMemory(interval_seconds=0.1)
        self._memory.__enter__()
        self._begin(self._names[0])
        return self

    def __exit__(self, *_: Any) -> None:
        self._during.__exit__(None, None, None)
        self._memory.__exit__(None, None, None)

    def after(self, done: int, _: int) -> None:
        """Note the cost of the check that has just ended, and begin with the next."""
        self._during.__exit__(None, None, None)
        cpu, wall = self._cpu_seconds(), time.monotonic()
        name = self._names[done - 1]
        self._write_flames(name)
        self.costs.append(
            {
                "name": name,
                "cpu_seconds": round(cpu - self._cpu, 3),
                "wall_seconds": round(wall - self._wall, 3),
                "peak_bytes": self._memory.peaks[name],
            }
        )
        self._begin(self._names[done] if done < len(self._names) else "end")

    def _begin(self, name: str) -> None:
        self._during: contextlib.AbstractContextManager[None] = self._memory.during(name)
        self._during.__enter__()
        if self._flames is not None:
            self._profiler = importlib.import_module("pyinstrument").Profiler(interval=0.005)
            self._profiler.start()
        self._cpu, self._wall = self._cpu_seconds(), time.monotonic()

    def _write_flames(self, name: str) -> None:
        if self._flames is None:
            return
        self._profiler.stop()
        self._flames.mkdir(parents=True, exist_ok=True)
        (self._flames / f"{name}.html").write_text(self._profiler.output_html(), encoding="utf-8")
        (self._flames / f"{name}.txt").write_text(
            self._profiler.output_text(unicode=True, show_all=False), encoding="utf-8"
        )


def measure_gate(
    published: Path, private: Path, source: Any, *, workers: int, flames: Path | None, only: list[str]
) -> dict[str, Any]:
    """Run the gate on a release, or only some of its checks; return costs and figures."""
    from checks.gate import judge
    from checks.registry import registered
    from tasks.engine import engine

    names = only or [*registered()]
    with _engine(engine, workers, flames) as embedded:
        cpu = embedded.cpu_seconds if embedded else time.process_time
        began = cpu()
        with Meter(names, cpu, flames) as meter:
            if only:
                found = judge_some(only, published, private, source, embedded, meter.after)
            else:
                found = judge(published, private, source, SNAPSHOT, {}, embedded, meter.after).checks
        total = cpu() - began
    return {
        "checks": meter.costs,
        "cpu_seconds": round(total, 3),
        "peak_bytes": max(cost["peak_bytes"] for cost in meter.costs),
        "passed": all(check.passed for check in found),
        "figures": [dataclasses.asdict(check) for check in found],
    }


def judge_some(
    names: list[str],
    published: Path,
    private: Path,
    source: Any,
    embedded: Any,
    after: Callable[[int, int], None],
) -> list[Any]:
    """Run some checks on the whole release, one after the other, with what they share kept as in the gate."""
    from checks.evidence.opened_cases import candidate_case
    from checks.gate import run_check
    from checks.registry import registered
    from tasks.engine import single_threaded

    found = []
    with (
        contextlib.closing(candidate_case(published, private, source, SNAPSHOT, embedded)) as case,
        single_threaded(),
    ):
        for name in names:
            check = registered()[name]
            found.append(run_check(check, case, check.threshold))
            after(len(found), len(names))
            case.forget()
    return found


@contextlib.contextmanager
def _engine(make: Any, workers: int, flames: Path | None) -> Iterator[Any]:
    if flames is not None or not workers:
        yield None
        return
    with make(workers) as embedded:
        yield embedded


def show(run: dict[str, Any]) -> str:
    """Tabulate the checks, the dearest first; those that take less than a hundredth of the gate in one line."""
    total = sum(cost["cpu_seconds"] for cost in run["checks"])
    rows = [["check", "CPU-s", "share", "wall s", "peak MiB"]]
    small = 0.0
    for cost in sorted(run["checks"], key=lambda cost: -cost["cpu_seconds"]):
        if cost["cpu_seconds"] < 0.01 * total:
            small += cost["cpu_seconds"]
            continue
        rows.append(
            [
                cost["name"],
                f"{cost['cpu_seconds']:,.1f}",
                f"{cost['cpu_seconds'] / total:.0%}",
                f"{cost['wall_seconds']:,.1f}",
                f"{cost['peak_bytes'] / 2**20:,.0f}",
            ]
        )
    rows.append(["all others", f"{small:,.1f}", f"{small / total:.0%}", "", ""])
    rows.append(["whole", f"{total:,.1f}", "", "", f"{run['peak_bytes'] / 2**20:,.0f}"])
    return results.table(rows)


def main() -> None:
    """Make or find the release, judge it, print and keep the costs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--ratings-per-user", type=float, default=RATINGS / USERS)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--source", default=None, help="a source that is there already, with --format")
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--store", type=Path, default=None, help="kept; a release in it is not made again")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", default="", help="names of checks, with commas; the first one also opens the release"
    )
    parser.add_argument("--flame", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = _run(options, Path(scratch))
    print(show(run))
    if options.json:
        options.json.write_text(json.dumps(run, indent=1), encoding="utf-8")


def _run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    from tasks.config import parse
    from tasks.store import Store

    place = options.store or scratch / "store"
    if options.source:
        data = Path(options.source)
    else:
        data = make_data(
            options.data or scratch / "data", options.users, options.items, options.ratings_per_user
        )
    config = release_config(NAME, data.resolve(), options.k)
    config["source"]["format"] = options.format
    store = Store(place / str(options.k))
    published = store.published(NAME, SNAPSHOT)
    if not (published / "manifest.json").exists():
        warm_up(scratch, options.workers)
        say("making the release")
        made = measure(config, store.root, workers=options.workers)
        if made["status"] != "published":
            sys.exit(f"the gate refused the release: {made['why']}")
    say("judging it")
    private = store.private(NAME, SNAPSHOT)
    return measure_gate(
        published,
        private,
        parse(config).source,
        workers=options.workers,
        flames=options.flame,
        only=[name for name in options.only.split(",") if name],
    )


if __name__ == "__main__":
    main()
