"""Measure releases up to a billion ratings: `python -m benchmarks.billion [--users 4800000] [--doublings 6]`.

Ten times Netflix's users, the same items: 4.8 million users × 17,770 items × 10⁹ ratings, padded, k=20, the gate
included, two workers. Sizes are halved `--doublings` times, smallest first; source and store of a size are removed
before the next is made. Prints every stage with its CPU seconds, the peaks, and the exponent of the growth: over all
sizes, and over the last three doublings. A size for which the disk has no room is not made, and the program says so.

Bars: 8 GiB for all processes together, an exponent of at most 1.1 over the last three doublings, and every release
passes the gate. They are held against the sizes that were made; whether the largest asked for was is a bar of its own.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.growth import exponent, fit, show
from benchmarks.netflix_shaped import ITEMS
from benchmarks.results import Bar
from benchmarks.stages import ANONYMIZATION, make_data, measure, own, release_config, say, total, warm_up

USERS, RATINGS, K = 4_800_000, 1_000_000_000, 20
GIB = 2**30
MOST_GIB, MOST_EXPONENT, LAST = 8.0, 1.1, 3
# Ingest: parts and runs of 20 bytes a rating beside the ratings by user, by item, and those of the cohort; the source.
BYTES_PER_RATING = 65
BYTES_PER_CELL = 5  # of groups × items: profiles of the steps, rows of the assembly, candidate, release


def needed_bytes(users: int, items: int, ratings_per_user: float) -> int:
    """Return the room on the disk that a release of this size takes while it is made."""
    return int(users * ratings_per_user * BYTES_PER_RATING + users // K * items * BYTES_PER_CELL)


def bars(runs: list[dict[str, Any]], wanted: int) -> list[Bar]:
    """Return the bars of the sizes that were made."""
    last = runs[-1 - LAST :]
    sizes, seconds = [run["users"] for run in last], [total(run["stages"]) for run in last]
    growth = exponent(sizes, seconds) if len(runs) > LAST else None
    return [
        Bar(
            "peak memory", max((run["peak_bytes"] / GIB for run in runs), default=None), "≤", MOST_GIB, "GiB"
        ),
        Bar(f"exponent of the last {LAST} doublings", growth, "≤", MOST_EXPONENT),
        Bar("releases that passed the gate", _share(run["status"] == "published" for run in runs), "≥", 1),
        Bar(
            "users of the largest release", float(max((run["users"] for run in runs), default=0)), "≥", wanted
        ),
    ]


def _share(answers: Any) -> float | None:
    answers = list(answers)
    return sum(answers) / len(answers) if answers else None


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=USERS, help="of the largest release")
    parser.add_argument("--doublings", type=int, default=6, help="how often the size is halved before")
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--ratings-per-user", type=float, default=RATINGS / USERS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--without-gate", action="store_true", help="stop after evaluate")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where data and stores are made")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/billion.json at full size"
    )
    asked = parser.parse_args(given)
    asked.command = results.command(
        "benchmarks.billion", asked, "users", "doublings", "items", "ratings_per_user", "workers"
    )
    if asked.json is None:
        whole = (asked.users, asked.items, asked.without_gate) == (USERS, ITEMS, False)
        asked.json = results.DIRECTORY / ("billion.json" if whole else f"billion-{asked.users}.local.json")
    return asked


def make_release(asked: argparse.Namespace, users: int, scratch: Path) -> dict[str, Any]:
    """Make the source and the release of one size, remove both, and return the figures."""
    data = make_data(scratch / f"users-{users}", users, asked.items, asked.ratings_per_user)
    store = scratch / "store"
    say(f"{users:,} users, {asked.workers} workers")
    steps = list(ANONYMIZATION) if asked.without_gate else None
    try:
        made = measure(release_config("billion", data, K), store, workers=asked.workers, steps=steps)
    finally:
        for directory in (data, store):
            shutil.rmtree(directory, ignore_errors=True)
    ratings = made.pop("references")["ingest"]["counts"]["ratings"]
    del made["output_digests"]
    return {"users": users, "ratings": ratings, **made}


def main(given: list[str] | None = None) -> int:
    asked, began = arguments(given), results.machine()
    if asked.scratch:
        asked.scratch.mkdir(parents=True, exist_ok=True)
    sizes = [asked.users // 2**doubling for doubling in reversed(range(asked.doublings + 1))]
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="murmur-billion-", dir=asked.scratch) as directory:
        scratch = Path(directory)
        warm_up(scratch, asked.workers)
        for users in sizes:
            needed, free = (
                needed_bytes(users, asked.items, asked.ratings_per_user),
                shutil.disk_usage(scratch).free,
            )
            if needed > free:
                print(
                    f"{users:,} users: not made; {needed / 1e9:,.0f} GB are needed, {free / 1e9:,.0f} are free"
                )
                break
            runs.append(make_release(asked, users, scratch))
            print(f"{users:,} users: {total(runs[-1]['stages']):,.0f} CPU-s", flush=True)
    if not runs:
        return results.verdict(bars(runs, asked.users))
    growth = fit(runs)
    print(show(runs, growth))
    walls = [sum(stage["wall_seconds"] for stage in own(run["stages"])) for run in runs]
    shares = ", ".join(f"{run['others_cpu_share']:.0%}" for run in runs)
    print(f"others used {shares} of the cores")
    figures = {
        "command": asked.command,
        "k": K,
        "items": asked.items,
        "runs": runs,
        "wall_seconds": walls,
        "exponents": growth,
    }
    held = bars(runs, asked.users)
    results.write(asked.json, {**figures, "bars": [bar.to_json() for bar in held]}, began)
    return results.verdict(held)


if __name__ == "__main__":
    sys.exit(main())
