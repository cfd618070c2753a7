"""Measure every stage at Netflix's size: `python -m benchmarks.netflix [--users N] [--k 50,5] [--data DIR] …`.

One release per k through tasks/pipeline.py with embedded workers: padded, the metric of [Chang2009], the gate included,
on synthetic ratings of Netflix's shape. Stages that do not depend on k are made once and counted for every k. Prints
CPU seconds, wall, the peak of all processes (shared pages once) and the rate per stage; then the peers on a slice of
the same data; then the bars. Exits 1 if one is missed.

Work is counted as the paper describes it, whatever shortcut is taken: cells compared are distances × items, with *one*
round of each t-means. So is naive NumPy's time for the metric-bound stages: its CPU seconds per distance, measured on a
slice in the same run, times these distances. The paper's algorithm makes several rounds: the ratio is a lower bound.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.netflix_shaped import ITEMS, RATINGS, USERS
from benchmarks.peers import describe, measure_peers
from benchmarks.results import Bar
from benchmarks.stages import (
    ANONYMIZATION,
    GATE,
    INDEPENDENT_OF_K,
    METRIC_BOUND,
    make_data,
    measure,
    own,
    release_config,
    total,
    warm_up,
)

GIB = 2**30
ANONYMIZATION_GIB, GATE_GIB = 4.0, 6.0
OUTPUT_GB, OUTPUT_K = 2.0, 5
MCELLS_PER_CPU_SECOND = 200.0
TIMES_NAIVE = 100.0
GOAL_CPU_SECONDS = 1_200.0  # ten minutes of two quiet cores


def count_work(references: dict[str, dict], k: int) -> dict[str, Any]:
    """Count the work: ratings, cells, and the distances of one round of the paper's algorithm."""
    counts = {name: reference["counts"] for name, reference in references.items()}
    sizes = np.bincount(np.load(Path(references["binning"]["path"]) / "bins.npy"))
    sizes = sizes[sizes > 0].astype(float)
    users = int(sizes.sum())
    ingest = counts["ingest"]
    return {
        "users": users,
        "items": ingest["items"],
        "ratings": ingest["ratings"],
        "groups": counts["clustering"]["groups"],
        "cells": counts["homogenization"]["cells"],
        "distances": {
            "centers": counts["sampling"]["sampled"] * counts["centers"]["centers"],
            "binning": users * counts["centers"]["centers"],
            "clustering": int((sizes * (sizes // k)).sum()),
        },
    }


def rates(stages: list[dict[str, Any]], work: dict[str, Any]) -> list[dict[str, Any]]:
    """Add to every stage its work per CPU second."""
    amounts: dict[str, tuple[float, str]] = {
        name: (count * work["items"] / 1e6, "Mcell compared") for name, count in work["distances"].items()
    }
    amounts |= dict.fromkeys(("ingest", "padding", "evaluate"), (work["ratings"] / 1000000.0, "M ratings"))
    amounts |= dict.fromkeys(("homogenization", "diversity", *GATE), (work["cells"] / 1000000.0, "Mcell"))
    return [
        {**stage, "rate": amounts[stage["name"]][0] / stage["cpu_seconds"], "unit": amounts[stage["name"]][1]}
        if stage["name"] in amounts and stage["cpu_seconds"] > 0
        else stage
        for stage in stages
    ]


def against_naive(
    stages: list[dict[str, Any]], work: dict[str, Any], seconds_per_distance: float
) -> dict[str, float]:
    """Compare CPU seconds of the metric-bound stages with naive NumPy's for the same distances."""
    naive = seconds_per_distance * sum(work["distances"].values())
    ours = total(stages, METRIC_BOUND)
    return {"ours_cpu_seconds": ours, "naive_cpu_seconds": naive, "ratio": naive / max(ours, 1e-9)}


def bars(run: dict[str, Any]) -> list[Bar]:
    """Return the bars of a release of this size."""
    peaks = {stage["name"]: stage["peak_bytes"] / GIB for stage in own(run["stages"])}
    making, judging = ([peaks[name] for name in names if name in peaks] for names in (ANONYMIZATION, GATE))
    found = [
        Bar("peak memory of anonymization", max(making, default=None), "≤", ANONYMIZATION_GIB, "GiB"),
        Bar("peak memory of the gate", max(judging, default=None), "≤", GATE_GIB, "GiB"),
        Bar("metric-bound stages against naive NumPy", run["naive"]["ratio"], "≥", TIMES_NAIVE, "×"),
        Bar("passed the gate", float(run["status"] == "published"), "≥", 1),
    ]
    if run["k"] == OUTPUT_K:
        output = None if run["output_bytes"] is None else run["output_bytes"] / 1e9
        speed = next((s.get("rate") for s in run["stages"] if s["name"] == "homogenization"), None)
        found += [
            Bar("output", output, "≤", OUTPUT_GB, "GB"),
            Bar("homogenization", speed, "≥", MCELLS_PER_CPU_SECOND, "Mcell per CPU-s"),
        ]
    return [Bar(f"k={run['k']}: {bar.name}", bar.value, bar.sense, bar.limit, bar.unit) for bar in found]


def show(run: dict[str, Any]) -> str:
    """Tabulate the stages of one release."""
    rows = [[f"k={run['k']}", "CPU-s", "wall s", "peak MiB", "per CPU-s", ""]]
    for stage in run["stages"]:
        rate = f"{results.number(stage['rate'])} {stage['unit']}" if "rate" in stage else ""
        rows.append(
            [
                stage["name"],
                f"{stage['cpu_seconds']:,.1f}",
                f"{stage['wall_seconds']:,.1f}",
                f"{stage['peak_bytes'] / 2**20:,.0f}",
                rate,
                "shared" if stage.get("shared") else "",
            ]
        )
    stages = own(run["stages"])
    wall = sum(stage["wall_seconds"] for stage in stages)
    peak = max(stage["peak_bytes"] for stage in stages)
    rows.append(["whole", f"{total(stages):,.1f}", f"{wall:,.1f}", f"{peak / 2**20:,.0f}", "", ""])
    return results.table(rows)


def make_releases(asked: argparse.Namespace, data: Path, store: Path) -> list[dict[str, Any]]:
    """Make one release per k; results that do not depend on k are reused from the first."""
    runs: list[dict[str, Any]] = []
    shared: list[dict[str, Any]] = []
    given: dict[str, dict] = {}
    for k in asked.ks:
        run = measure(release_config(f"netflix-k{k}", data, k), store, workers=asked.workers, given=given)
        run["stages"] = shared + run["stages"]
        if not given:
            given = {name: run["references"][name] for name in INDEPENDENT_OF_K}
            shared = [{**stage, "shared": True} for stage in run["stages"] if stage["name"] in given]
        run["work"] = count_work(run["references"], k)
        if (run["work"]["users"], run["work"]["items"]) != (asked.users, asked.items):
            sys.exit(
                f"{data} holds {run['work']['users']:,} users × {run['work']['items']:,} items, not the size asked for"
            )
        run["stages"] = rates(run["stages"], run["work"])
        runs.append(run)
    return runs


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--ratings-per-user", type=float, default=RATINGS / USERS)
    parser.add_argument("--k", default="50,5", help="values of k, one release for each (default 50,5)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--data",
        type=Path,
        help="directory of Parquet parts made earlier; filled if it is empty or does not exist",
    )
    parser.add_argument("--store", type=Path, help="store of the releases (default: a temporary directory)")
    parser.add_argument("--keep", action="store_true", help="do not remove the releases from --store")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/netflix.json at full size"
    )
    asked = parser.parse_args(given)
    asked.ks = [int(k) for k in asked.k.split(",")]
    if asked.keep and not asked.store:
        parser.error("--keep needs --store: a temporary directory is removed")
    asked.command = results.command(
        "benchmarks.netflix", asked, "users", "items", "ratings_per_user", "k", "workers"
    )
    if asked.json is None:
        usual = parser.parse_args([])
        whole = all(
            getattr(asked, name) == getattr(usual, name)
            for name in ("users", "items", "ratings_per_user", "k")
        )
        asked.json = results.DIRECTORY / ("netflix.json" if whole else f"netflix-{asked.users}.local.json")
    return asked


def main(given: list[str] | None = None) -> int:
    asked, began = arguments(given), results.machine()
    with contextlib.ExitStack() as closing:
        scratch = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="murmur-netflix-")))
        data = make_data(asked.data or scratch / "data", asked.users, asked.items, asked.ratings_per_user)
        store = asked.store or scratch / "store"
        warm_up(scratch, asked.workers)
        runs = make_releases(asked, data.resolve(), store.resolve())
        made = runs[0]["references"]
        peers = measure_peers(Path(made["ingest"]["path"]), Path(made["padding"]["path"]), asked.ks)
        if asked.store and not asked.keep:
            for k in asked.ks:
                for side in ("private", "published"):
                    shutil.rmtree(store / side / f"netflix-k{k}", ignore_errors=True)
    for run in runs:
        del run["references"], run["output_digests"]  # of no use to a reader of the figures
        run["naive"] = against_naive(run["stages"], run["work"], peers["metric"]["naive_seconds"])
        run["whole_cpu_seconds"] = total(run["stages"])
        print(show(run))
        naive = run["naive"]
        print(
            f"metric-bound stages: {naive['ours_cpu_seconds']:,.1f} CPU-s, naive NumPy "
            f"{naive['naive_cpu_seconds']:,.0f} (one round of each t-means); the goal for the whole: "
            f"{GOAL_CPU_SECONDS:,.0f} CPU-s, found {run['whole_cpu_seconds']:,.0f}; others used "
            f"{run['others_cpu_share']:.0%} of the cores; {run['status']}\n"
        )
        if run["why"]:
            print(run["why"])
    for line in describe(peers):
        print(line)
    held = [bar for run in runs for bar in bars(run)]
    figures = {
        "command": asked.command,
        "goal_cpu_seconds": GOAL_CPU_SECONDS,
        "shared_stages": list(INDEPENDENT_OF_K) if len(runs) > 1 else [],
        "runs": runs,
        "peers": peers,
        "bars": [bar.to_json() for bar in held],
    }
    results.write(asked.json, figures, began)
    return results.verdict(held)


if __name__ == "__main__":
    sys.exit(main())
