"""Publish synthetic rows month by month within one privacy budget, with `murmur run`, until the budget is spent.

    python -m benchmarks.dp_series --data DIR [--first 2000-12-01] [--months 12] [--epsilon 6] [--store DIR]

The source is MovieLens 1M (--data names its directory), everything rated before the first day of each month. The
budget is for the population, shared equally by the months. One month more is asked for; its file is never written, so
that only a refusal before the source is opened is reported as one. The first month is December 2000 by default, the
first one with more than 5,000 people: differential privacy hides one person among all, and hides everything where these
are few. Prints a line of JSON per snapshot, and stores all in results/dp-series.json (--json names another file).
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import results
from benchmarks.series import snapshots, write_months

FIRST = datetime.date(2000, 12, 1)


def write_config(place: Path, path: str, epsilon: float, months: int) -> Path:
    """Write the release file of the series."""
    file = place / "release.toml"
    file.write_text(
        f'[release]\nname = "monthly"\n[source]\nformat = "csv"\npath = "{path}"\nscale = [1.0, 5.0]\n'
        '[privacy]\nmethod = "dp-synthetic"\n'
        f'[privacy.budget]\nepsilon = {epsilon}\nper = "population"\nreleases = {months}\n'
    )
    return file


def murmur(*arguments: str) -> dict[str, Any]:
    """Run a command; return its answer, or the error that it printed."""
    command = [sys.executable, "-m", "tasks.cli", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return {**answer, "exit": done.returncode}


def run(config: Path, day: datetime.date, store: Path) -> dict[str, Any]:
    """Run one snapshot; return the facts that the owner sees."""
    answer = murmur("run", str(config), "--snapshot", str(day), "--store", str(store))
    ranking = answer.get("utility", {}).get("ranking") or {}
    failed = [c["name"] for c in answer.get("checks", []) if not c["passed"] and c["severity"] == "gate"]
    figures = ("original_ndcg", "own_history_ndcg", "popularity_ndcg")
    return {
        "snapshot": str(day),
        "status": answer.get("status", "error"),
        "exit": answer["exit"],
        "failed": failed,
        "why": answer.get("why") or (answer.get("error") or {}).get("what"),
        "rows": answer.get("counts", {}).get("groups"),
        "items": answer.get("counts", {}).get("items"),
        **{name: round(ranking[name], 4) for name in figures if ranking.get(name) is not None},
        "cpu_seconds": round(sum(answer.get("seconds", {}).values()), 1),
    }


def main() -> None:
    """Run the series, then one month more, and print what the ledger says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--first", type=datetime.date.fromisoformat, default=FIRST)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--epsilon", type=float, default=6.0)
    parser.add_argument("--store", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=results.DIRECTORY / "dp-series.json")
    options = parser.parse_args()
    began = results.machine()
    days = snapshots(options.first, options.months + 1)
    with tempfile.TemporaryDirectory() as scratch:
        place = options.store or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        path = write_months(options.data, days[:-1], place)
        config = write_config(place, path, options.epsilon, options.months)
        lines = []
        for day in days:
            people = pd.read_csv(place / f"{day}.csv")["user"].nunique() if day != days[-1] else None
            lines.append({**run(config, day, place / "store"), "people": people})
            print(json.dumps(lines[-1]), flush=True)
        ledger = murmur("ledger", str(config), "--store", str(place / "store"), "--check")
    found = {"spent": ledger.get("spent"), "ledger": ledger.get("status"), "snapshots": lines}
    print(json.dumps(found["spent"]))
    results.write(options.json, found, began)


if __name__ == "__main__":
    main()
