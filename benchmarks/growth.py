"""Measure how the work grows with the number of users: `python -m benchmarks.growth [--smallest 2000] [--workers 1,2]`.

The whole pipeline (padded, the paper's metric, k=5, the gate included) on Netflix-shaped data of m, 2m, 4m and 8m
users, at fixed ratings per user and items. The exponent of each stage is the slope of a straight line through the
logarithms, by least squares; `last` is the exponent of the last doubling alone, where fixed costs weigh least.
Memory and time of starting the workers are not included. The algorithm of [Chang2009] has 1.5.

With two numbers of workers the largest release is made with both: the published bytes must be equal. The speed-up of
the parallel stages is judged only if other processes left the cores idle (`others`).
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.netflix_shaped import ITEMS, RATINGS, USERS
from benchmarks.results import Bar
from benchmarks.stages import make_data, measure, own, release_config, say, total, warm_up

K = 5
MOST_EXPONENT = 1.25
LEAST_SPEEDUP = 1.6
QUIET_SHARE = 0.05  # of the cores, used by others
SHORT_SECONDS = (
    0.5  # a stage that never takes longer has no exponent: the clock and the imports would make it
)
PARALLEL = ("ingest", "padding", "binning", "clustering", "homogenization", "evaluate", "validate")


def exponent(sizes: list[int], values: list[float]) -> float | None:
    """Return the slope of log(value) over log(size), by least squares; None if it is not defined."""
    if len(sizes) != len(values) or len(sizes) < 2 or min(values) <= 0:
        return None
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    across = sum((one - middle) ** 2 for one in x)
    return sum((one - middle) * (other - height) for one, other in zip(x, y, strict=True)) / across


def fit(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the exponent of every stage that all runs have, and of all stages together."""
    sizes = [run["users"] for run in runs]
    stages: dict[str, list[float]] = {stage["name"]: [] for stage in runs[-1]["stages"]}
    for run in runs:
        for stage in run["stages"]:
            if stage["name"] in stages:
                stages[stage["name"]].append(stage["cpu_seconds"])
    known = {name: values for name, values in stages.items() if len(values) == len(runs)}
    whole = [total(run["stages"]) for run in runs]
    return {
        "stages": {
            name: exponent(sizes, values) if max(values) >= SHORT_SECONDS else None
            for name, values in known.items()
        },
        "whole": exponent(sizes, whole),
        "last": exponent(sizes[-2:], whole[-2:]),
        "peak_bytes": exponent(sizes, [float(run["peak_bytes"]) for run in runs]),
    }


def compare_workers(few: dict[str, Any], many: dict[str, Any]) -> dict[str, Any]:
    """Compare two runs of the same release: speed-up, and whether the bytes are equal."""

    def walls(run: dict[str, Any]) -> dict[str, float]:
        return {stage["name"]: stage["wall_seconds"] for stage in run["stages"] if stage["name"] in PARALLEL}

    one, two = walls(few), walls(many)
    both = [name for name in one if name in two]
    share = max(few["others_cpu_share"], many["others_cpu_share"])
    return {
        "users": many["users"],
        "workers": [few["workers"], many["workers"]],
        "stages": {name: one[name] / max(two[name], 1e-9) for name in both},
        "speedup": sum(one[name] for name in both) / max(sum(two[name] for name in both), 1e-9),
        "others_cpu_share": share,
        "quiet": share <= QUIET_SHARE,
        "same_bytes": bool(few["output_digests"]) and few["output_digests"] == many["output_digests"],
    }


def bars(growth: dict[str, Any], workers: dict[str, Any] | None) -> list[Bar]:
    """Return the bars; the speed-up has one on quiet cores only."""
    found = [
        Bar("growth exponent of the whole pipeline", growth["whole"], "≤", MOST_EXPONENT),
        # Costs that do not grow flatten the fit; the two largest sizes are affected least.
        Bar("exponent of the last doubling", growth["last"], "≤", MOST_EXPONENT),
    ]
    if workers:
        found.append(Bar("published files equal, byte for byte", float(workers["same_bytes"]), "≥", 1))
        if workers["quiet"]:
            found.append(Bar("speed-up of the parallel stages", workers["speedup"], "≥", LEAST_SPEEDUP, "×"))
    return found


def show(runs: list[dict[str, Any]], growth: dict[str, Any]) -> str:
    """Tabulate CPU seconds by stage and size."""

    def power(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    rows = [["CPU-s", *(f"{run['users']:,}" for run in runs), "exponent", "wall s", "peak MiB"]]
    for stage in runs[-1]["stages"]:
        values = [{s["name"]: s["cpu_seconds"] for s in run["stages"]}.get(stage["name"]) for run in runs]
        cells = ["–" if value is None else f"{value:.2f}" for value in values]
        rest = [f"{stage['wall_seconds']:.1f}", f"{stage['peak_bytes'] / 2**20:,.0f}"]
        rows.append([stage["name"], *cells, power(growth["stages"].get(stage["name"])), *rest])
    rows.append(["whole", *(f"{total(run['stages']):.2f}" for run in runs), power(growth["whole"]), "", ""])
    walls = [sum(stage["wall_seconds"] for stage in own(run["stages"])) for run in runs]
    rows.append(["wall s", *(f"{wall:.1f}" for wall in walls), "", "", ""])
    peaks = [f"{run['peak_bytes'] / 2**20:,.0f}" for run in runs]
    rows.append(["peak MiB", *peaks, power(growth["peak_bytes"]), "", ""])
    rows.append(["verdict", *(run["status"] for run in runs), "", "", ""])
    note = f"wall and peak of a stage: at {runs[-1]['users']:,} users; last doubling: {power(growth['last'])}"
    return f"{results.table(rows)}\n{note}"


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smallest", type=int, default=2_000, metavar="USERS", help="m; 2m, 4m, 8m follow")
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--ratings-per-user", type=float, default=RATINGS / USERS)
    parser.add_argument("--workers", default="2", help="one number, or two to compare, such as 1,2")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where data and stores are made")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/growth.json at Netflix's width"
    )
    asked = parser.parse_args(given)
    asked.command = results.command(
        "benchmarks.growth", asked, "smallest", "items", "ratings_per_user", "workers"
    )
    if asked.json is None:
        usual = parser.parse_args([])
        whole = (asked.items, asked.ratings_per_user) == (usual.items, usual.ratings_per_user)
        whole = whole and asked.smallest >= usual.smallest
        asked.json = results.DIRECTORY / ("growth.json" if whole else "growth.local.json")
    return asked


def main(given: list[str] | None = None) -> int:
    asked, began = arguments(given), results.machine()
    *few, many = sorted(int(count) for count in asked.workers.split(","))
    sizes = [asked.smallest * 2**doubling for doubling in range(4)]
    if asked.scratch:
        asked.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="murmur-growth-", dir=asked.scratch) as directory:
        scratch = Path(directory)

        def release(users: int, workers: int) -> dict[str, Any]:
            data = make_data(scratch / f"users-{users}", users, asked.items, asked.ratings_per_user)
            say(f"{users:,} users, {workers} workers")
            store = scratch / "store"  # always the same path, and the same secret below it
            made = measure(release_config("growth", data, K), store, workers=workers)
            for part in ("published/growth", "private/growth"):
                shutil.rmtree(store / part, ignore_errors=True)
            references = made.pop("references")
            return {"users": users, "ratings": references["ingest"]["counts"].get("ratings"), **made}

        warm_up(scratch, many)
        runs = [release(users, many) for users in sizes]
        slower = [release(sizes[-1], count) for count in few]
    growth = fit(runs)
    workers = compare_workers(slower[0], runs[-1]) if slower else None
    found = bars(growth, workers)
    print(show(runs, growth))
    if workers:
        quiet = "" if workers["quiet"] else "; not held against its bar: others kept the cores busy"
        print(
            f"{workers['workers'][1]} workers against {workers['workers'][0]}: {workers['speedup']:.2f}× in wall "
            f"time on the parallel stages (others used {workers['others_cpu_share']:.0%} of the cores{quiet})"
        )
    figures = {
        "command": asked.command,
        "items": asked.items,
        "ratings_per_user": asked.ratings_per_user,
        "k": K,
        "runs": runs,
        "exponents": growth,
        "workers": workers,
        "bars": [bar.to_json() for bar in found],
    }
    results.write(asked.json, figures, began)
    return results.verdict(found)


if __name__ == "__main__":
    sys.exit(main())
