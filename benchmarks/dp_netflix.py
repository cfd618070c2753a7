"""Measure method dp-synthetic at Netflix's size: `python -m benchmarks.dp_netflix RATINGS [--epsilons 3] …`.

RATINGS is what `python -m benchmarks.netflix_shaped RATINGS` made. A tenth of all ratings is held out at random; of the
others a release is made by the pipeline's own steps (ingest, statistics, synthesis), blocked, with Dask workers, in a
process of its own (benchmarks/stages.py): CPU seconds and the peak of all its processes. The gate is not run.

Then nDCG@10 of what --people people liked and was held out, with their own history: EASE trained on the rows, EASE
trained on the known ratings themselves (of the MOST_ITEMS most rated items, as in tasks/shadow/recommendation.py), and
popularity. Items without a score are never recommended, and what was liked of them counts as missed. Prints the bars,
and stores the figures in results/dp-netflix.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from scipy.linalg import blas

from benchmarks import results
from benchmarks.dp_synthetic import DELTA, HELD_OUT, LENGTH, PEOPLE_AT_ONCE, RELEVANT_FROM, Task
from benchmarks.results import Bar
from benchmarks.stages import measure
from tasks.data import profiles
from tasks.data.ratings import Ratings, places
from tasks.engine import single_threaded
from tasks.kernels.ranking import hits, ndcg, top_items
from tasks.recommenders import ease

SCALE = (1.0, 5.0)
STEPS = ("ingest", "statistics", "synthesis")
MOST_ITEMS = 4_000
ROWS_AT_ONCE = 4_096
GOAL_SHARE, GOAL_CPU_SECONDS, GOAL_GIB, GOAL_EPSILON = 0.85, 300.0, 4.0, 3.0
SEED = 7


def hold_out(ratings: Path, known: Path, people: int) -> pa.Table:
    """Write all ratings but a tenth to `known`, part by part; return what `people` people liked of that tenth."""
    known.mkdir(parents=True)
    liked: list[pa.Table] = []
    for number, part in enumerate(sorted(ratings.glob("*.parquet"))):
        table = pq.read_table(part)
        out = np.random.default_rng([SEED, number]).random(len(table)) < HELD_OUT
        pq.write_table(table.filter(pa.array(~out)), known / part.name, compression="zstd")
        wanted = pc.greater_equal(table.column("rating"), SCALE[0] + RELEVANT_FROM * (SCALE[1] - SCALE[0]))
        liked.append(table.select(["user", "item"]).filter(pc.and_(pa.array(out), wanted)))
    every = pa.concat_tables(liked)
    user = pc.unique(every.column("user"))
    chosen = np.sort(np.random.default_rng(SEED).choice(len(user), min(people, len(user)), replace=False))
    return every.filter(pc.is_in(every.column("user"), value_set=user.take(pa.array(chosen))))


def task_of(ratings: Ratings, liked: pa.Table) -> Task:
    """Return the asked people's known ratings and what they liked of those held out."""
    users, items = pa.array(ratings.user_ids(), pa.string()), pa.array(ratings.item_ids(), pa.string())
    user = places(liked.column("user").cast(pa.string()).combine_chunks(), users)
    item = places(liked.column("item").cast(pa.string()).combine_chunks(), items)
    there = (user >= 0) & (item >= 0)
    asked, row = np.unique(user[there], return_inverse=True)
    cells = (np.ones(len(row), np.int8), (row, item[there]))
    relevant = sp.csr_array(cells, shape=(len(asked), len(items)))
    return Task(ratings.by_user.take(asked), relevant, SCALE, np.arange(len(asked)))


def gram(blocks: Iterable[sp.csr_array], items: int) -> np.ndarray:
    """Return how many rows have both of two items; exact in float32, below 2^24 rows."""
    total = np.zeros((items, items), np.float32, order="F")
    for rows in blocks:
        dense = np.asfortranarray(rows.toarray().astype(np.float32).T)
        total = blas.ssyrk(1.0, dense, 1.0, total, overwrite_c=True)
    return (np.triu(total) + np.triu(total, 1).T).astype(np.float64)


def of_original(ratings: Ratings, task: Task) -> dict[str, Any]:
    """Return the yardsticks: EASE on the known ratings of the most rated items, and popularity."""
    side, raters = ratings.by_user, ratings.by_item.counts()
    best = np.sort(np.argsort(-raters, kind="stable")[:MOST_ITEMS])

    def rows() -> Iterator[sp.csr_array]:
        for start in range(0, side.rows, ROWS_AT_ONCE):
            some = side.block(start, min(start + ROWS_AT_ONCE, side.rows))[:, best]
            some.data = np.ones_like(some.data)
            yield some

    value = task.ndcg_of(ease.solve(gram(rows(), len(best)), ease.RIDGE), best)
    return {
        "people": side.rows,
        "items": len(raters),
        "known_ratings": int(side.indptr[-1]),
        "people_asked": len(task.asked),
        "original": round(value, 4),
        "popularity": round(by_popularity(task, raters), 4),
    }


def by_popularity(task: Task, raters: np.ndarray) -> float:
    """Return the mean nDCG@10 of recommending what most people rated, of all people and not only of those asked."""
    found = []
    for some in np.array_split(task.asked, -(-len(task.asked) // PEOPLE_AT_ONCE)):
        scores = np.broadcast_to(raters.astype(np.float32), (len(some), len(raters)))
        best = top_items(scores, sp.csr_array(task.known[some]), LENGTH)
        found.append(ndcg(hits(best, task.relevant[some]), np.diff(task.relevant.indptr)[some]))
    return float(np.concatenate(found).mean())


def of_release(references: dict[str, Any], ratings: Ratings, task: Task) -> dict[str, Any]:
    """Return what the rows are worth."""
    statistics, synthesis = (Path(references[name]["path"]) for name in ("statistics", "synthesis"))
    names = pq.read_table(statistics / "items.parquet").column("item").combine_chunks().cast(pa.string())
    columns = places(names, pa.array(ratings.item_ids(), pa.string()))
    file = synthesis / "groups.parquet"

    def rows() -> Iterator[sp.csr_array]:
        for part in profiles.blocks(file, np.dtype(np.uint8)):
            yield part.matrix(np.ones(len(part.codes), np.float32), len(columns))

    value = task.ndcg_of(ease.solve(gram(rows(), len(columns)), ease.RIDGE), columns)
    spent = json.loads((statistics / "spent.json").read_text())
    counts = references["synthesis"]["counts"]
    return {"ndcg": round(value, 4), "epsilon_spent": round(spent["epsilon"], 4), **counts}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ratings", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[GOAL_EPSILON])
    parser.add_argument("--people", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", type=Path, default=None, help="where intermediate files go")
    parser.add_argument("--results", type=Path, default=results.DIRECTORY / "dp-netflix.json")
    asked = parser.parse_args()
    began = results.machine()
    figures: dict[str, Any] = {
        "command": results.command("benchmarks.dp_netflix", asked, "people", "workers"),
        "epsilon": {},
    }
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(dir=asked.scratch, prefix="murmur-") as place, single_threaded():
        liked = hold_out(asked.ratings, Path(place) / "known", asked.people)
        given: dict[str, Any] = {}
        for epsilon in asked.epsilons:
            config = {
                "release": {"name": "dp-netflix"},
                "source": {"format": "parquet", "path": f"{place}/known", "scale": list(SCALE)},
                "privacy": {
                    "method": "dp-synthetic",
                    "budget": {"epsilon": epsilon, "delta": DELTA, "per": "release"},
                },
                "series": {"mode": "independent"},
            }
            measured = measure(
                config, Path(place) / "store", workers=asked.workers, given=given, steps=list(STEPS)
            )
            references = measured.pop("references")
            ratings = Ratings(Path(references["ingest"]["path"]))
            if not given:
                task = task_of(ratings, liked)
                figures |= of_original(ratings, task)
                first, given = measured, {"ingest": references["ingest"]}
            found = of_release(references, ratings, task)
            share = round(found["ndcg"] / figures["original"], 3)
            ingest = [stage for stage in first["stages"] if stage["name"] == "ingest"]
            stages = ingest + [stage for stage in measured["stages"] if stage["name"] != "ingest"]
            cpu = sum(stage["cpu_seconds"] for stage in stages)
            peak = max(stage["peak_bytes"] for stage in stages) / 2**30
            figures["epsilon"][f"{epsilon:g}"] = {
                **found,
                "share": share,
                "cpu_seconds": round(cpu, 1),
                "peak_gib": round(peak, 2),
                "others_cpu_share": measured["others_cpu_share"],
                "stages": stages,
            }
            print(json.dumps(figures), file=sys.stderr, flush=True)
            if epsilon == GOAL_EPSILON:
                bars = [
                    Bar("share of the original's nDCG@10", share, "≥", GOAL_SHARE),
                    Bar("CPU", cpu, "≤", GOAL_CPU_SECONDS, "s"),
                    Bar("peak memory", peak, "≤", GOAL_GIB, "GiB"),
                ]
    results.write(asked.results, figures, began)
    print(json.dumps(figures, indent=1))
    return results.verdict(bars)


if __name__ == "__main__":
    sys.exit(main())
