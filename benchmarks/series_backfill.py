"""Backfill six monthly snapshots in order and in three shuffled orders; compare safety and coverage.

    python -m benchmarks.series_backfill [--light] [--users 2000] [--json benchmarks/results/series-backfill.json]

Each order has a store of its own and goes through `murmur run`; --light runs the steps in this process, with the
checks that judge a release with all earlier ones and without the attacks on a cohort. Coverage of a snapshot: people of
its source who are in its release, over all people of its source (settings here make everybody eligible). It is compared
with the chronological order's. Released people who left the source are republished, and counted apart. Classes are
recounted from the owner's files (benchmarks/series.py).
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import series
from benchmarks.series_runs import light_gate, members, present, publish
from tasks.config import load

MONTHS, SHUFFLES, GOAL = 6, 3, 0.9


def orders(months: int = MONTHS, shuffles: int = SHUFFLES) -> dict[str, list[int]]:
    """Return the orders in which snapshots are released: in time, and shuffled with seeds 1, 2, …"""
    found = {"chronological": list(range(months))}
    for seed in range(1, shuffles + 1):
        found[f"shuffled {seed}"] = random.Random(seed).sample(range(months), months)
    return found


def coverage(released: set[str], there: set[str]) -> float:
    """Return the share of the source's people who are released."""
    return len(released & there) / len(there) if there else 0.0


def compare(measured: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return for each order its mean coverage, that of its worst snapshot, and both as shares of the chronological."""
    base = {one["snapshot"]: one["coverage"] for one in measured["chronological"]}
    found = {}
    for name, lines in measured.items():
        shares = [one["coverage"] / base[one["snapshot"]] for one in lines if base[one["snapshot"]]]
        found[name] = {
            "published": sum(one["status"] == "published" for one in lines),
            "mean_coverage": round(sum(one["coverage"] for one in lines) / len(lines), 4),
            "worst_coverage": round(min(one["coverage"] for one in lines), 4),
            "share_of_chronological": round(
                sum(one["coverage"] for one in lines) / max(1e-9, sum(base.values())), 4
            ),
            "worst_share_of_chronological": round(min(shares, default=0.0), 4),
        }
    return found


def run_order(order: list[int], place: Path, options: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Release the snapshots in this order; return a line for each and the smallest class in the end."""
    place.mkdir(parents=True)
    file = series.write_config(place, None, options)
    config, store = load(file), place / "store"
    days = series.snapshots(series.FIRST_MONTH[False], MONTHS)
    lines = []
    for number in order:
        day = days[number]
        made = publish(config, day, store) if options.light else series.run(file, day, store)
        there = present(config, day)
        done = made["status"] == "published"
        who = set(members(store, "monthly", str(day))) if done else set()
        line = {
            **{name: made.get(name) for name in ("snapshot", "status", "failed", "why", "cpu_seconds")},
            **_planned(store, str(day)),
            "in_source": len(there),
            "people": len(who),
            "left_the_source": len(who - there),
            "coverage": round(coverage(who, there), 4),
        }
        print(json.dumps(line), file=sys.stderr, flush=True)
        lines.append(line)
    return lines, series.smallest_class(store)


def _planned(store: Path, day: str) -> dict[str, Any]:
    private = store / "private" / "monthly" / day
    plan = next(iter([*private.glob("series.json"), *private.glob("work/ingest/series.json")]), None)
    known = json.loads(plan.read_text()) if plan else {}
    refused = (known.get("refused_cohort") or {}).get("why")
    found = {name: known.get(name) for name in ("cohort", "carried_groups", "strata", "waiting")}
    return {**found, "refused_cohort": refused}


def main() -> int:
    """Print the comparison; return 1 where a class is below k or an order covers less than nine tenths."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.series_backfill", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--light", action="store_true", help="without the gate's attacks on a cohort")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args(namespace=argparse.Namespace(mode="sticky", method="predictive-padded"))
    measured, classes = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, order in orders().items():
            place = Path(scratch) / name.replace(" ", "-")
            if options.light:
                with light_gate():
                    measured[name], classes[name] = run_order(order, place, options)
            else:
                measured[name], classes[name] = run_order(order, place, options)
            compared = compare(measured)
            print(json.dumps({name: {"smallest_class": classes[name], **compared[name]}}), flush=True)
            if options.json:
                answer = {
                    "command": f"python -m benchmarks.series_backfill --users {options.users}"
                    + " --light" * options.light,
                    "gate": "checks of the series alone" if options.light else "whole",
                    "source": f"synthetic, {options.users} users, 400 items, churn 0.05, k={options.k}",
                    "orders": {
                        one: {"smallest_class": classes[one], **compared[one], "snapshots": lines}
                        for one, lines in measured.items()
                    },
                }
                options.json.write_text(json.dumps(answer, indent=1) + "\n")
    safe = all(size >= options.k for size in classes.values())
    return int(not safe or any(one["share_of_chronological"] < GOAL for one in compared.values()))


if __name__ == "__main__":
    sys.exit(main())
