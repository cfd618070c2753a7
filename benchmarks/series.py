"""Run a series of monthly releases and report who was released, who waits, and what the gate said.

    python -m benchmarks.series --data DIR --k 5 [--mode independent] [--order 5,2,0,…] [--json FILE] [--store DIR]

The source is MovieLens 1M by month from April 2000 (--data names its directory), or, without --data, the synthetic one.
Classes are recomputed from the private memberships by a script that shares no code with pipeline and gate: two people
are alike when they are in the same group, or both absent, in every release.
"""

import argparse
import collections
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

FIRST_MONTH = {True: datetime.date(2000, 5, 1), False: datetime.date(2026, 1, 1)}


def snapshots(first: datetime.date, months: int) -> list[datetime.date]:
    """Return the first days of consecutive months."""
    at = [first.year * 12 + first.month - 1 + number for number in range(months)]
    return [datetime.date(month // 12, month % 12 + 1, 1) for month in at]


def write_months(data: Path, days: list[datetime.date], out: Path) -> str:
    """Write the ratings that were given before each day as <day>.csv; return the path for the release file."""
    ratings = pd.read_csv(
        data / "ratings.dat", sep="::", engine="python", names=["user", "item", "rating", "timestamp"]
    )
    for day in days:
        end = pd.Timestamp(day, tz="UTC").timestamp()
        ratings[ratings["timestamp"] < end].to_csv(out / f"{day}.csv", index=False)
    return str(out / "{snapshot}.csv")


def write_config(place: Path, path: str | None, options: argparse.Namespace) -> Path:
    """Write the release file of the series."""
    source = f'format = "csv"\npath = "{path}"\nscale = [1.0, 5.0]' if path else 'format = "synthetic"'
    if path is None:
        source += f"\n[source.synthetic]\nusers = {options.users}\nitems = 400\nchurn = 0.05"
    start = FIRST_MONTH[path is not None]
    file = place / "release.toml"
    file.write_text(
        f'[release]\nname = "monthly"\nschedule = "@monthly"\nstart_date = {start}\n[source]\n{source}\n'
        f'[privacy]\nmethod = "{options.method}"\nk = {options.k}\n[series]\nmode = "{options.mode}"\n'
    )
    return file


def run(config: Path, day: datetime.date, store: Path) -> dict[str, Any]:
    """Run one snapshot; return what the owner needs to know of it."""
    command = [sys.executable, "-m", "tasks.cli", "run", str(config), "--snapshot", str(day)]
    done = subprocess.run(
        [*command, "--store", str(store), "--json"], capture_output=True, text=True, check=False
    )
    answer = json.loads(done.stdout or "{}")
    failed = [c["name"] for c in answer.get("checks", []) if not c["passed"] and c["severity"] == "gate"]
    private = store / "private" / "monthly" / str(day)
    plan = next(iter([*private.glob("series.json"), *private.glob("work/ingest/series.json")]), None)
    known = json.loads(plan.read_text()) if plan else {}
    people = answer.get("counts", {}).get("users", 0)
    return {
        "snapshot": str(day),
        "status": answer.get("status", "error"),
        "failed": failed,
        "why": (answer.get("why") or done.stderr[-500:]) if answer.get("status") != "published" else None,
        "refused_cohort": (answer.get("refused_cohort") or {}).get("why"),
        "people": people,
        "groups": answer.get("counts", {}).get("groups", 0),
        "items": answer.get("counts", {}).get("items", 0),
        **{name: known.get(name) for name in ("cohort", "waiting", "eligible", "pooled")},
        "share_of_eligible": round(people / known["eligible"], 4) if known.get("eligible") else None,
        "utility": {n: round(v, 4) for n, v in answer.get("utility", {}).items() if isinstance(v, float)},
        "cpu_seconds": round(sum(answer.get("seconds", {}).values()), 1),
    }


def class_sizes(store: Path) -> list[int]:
    """Return the sizes of all classes of people over all releases that were ever public, ascending."""
    where: dict[str, list[tuple[str, int]]] = collections.defaultdict(list)
    for file in sorted(store.glob("private/*/*/membership.parquet")):
        place = file.parent.relative_to(store / "private")
        if not any(
            (store / "published" / place / name).exists() for name in ("manifest.json", "tombstone.json")
        ):
            continue
        table = pd.read_parquet(file)
        for user, group in zip(table["user"], table["group"], strict=True):
            if group >= 0:
                where[user].append((str(place), int(group)))
    return sorted(collections.Counter(tuple(sorted(groups)) for groups in where.values()).values())


def smallest_class(store: Path) -> int:
    """Return the size of the smallest class; 0: nobody was released."""
    return min(class_sizes(store), default=0)


def main() -> None:
    """Run the series and print a line for each snapshot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--mode", default="sticky")
    parser.add_argument("--method", default="predictive-padded")
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--order", default=None)
    parser.add_argument("--store", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    days = snapshots(FIRST_MONTH[options.data is not None], options.months)
    order = [int(n) for n in options.order.split(",")] if options.order else range(len(days))
    with tempfile.TemporaryDirectory() as scratch:
        place = options.store or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        path = write_months(options.data, days, place) if options.data else None
        config = write_config(place, path, options)
        lines = []
        for number in order:
            line = run(config, days[number], place / "store")
            sizes = class_sizes(place / "store")
            lines.append({**line, "class_sizes": [sizes[0], sizes[-1]] if sizes else None})
            print(json.dumps(lines[-1]), flush=True)
        found = {"smallest_class": smallest_class(place / "store"), "k": options.k, "mode": options.mode}
        found["data"] = "MovieLens 1M" if options.data else "synthetic"
        print(json.dumps(found), flush=True)
        if options.json:
            options.json.write_text(json.dumps({**found, "snapshots": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
