"""Measure how well lists of ten can be recommended from releases of method dp-synthetic:

    python -m benchmarks.dp_synthetic --data DIR [--sets ml-100k,ml-1m] [--epsilons 1,3,10] [--secrets 3] [--months 12]
        [--parquet OUT --users-asked 5000]

The yardstick: a tenth of the ratings is held out. EASE is trained on the synthetic rows and asked with a person's own
other ratings; candidates are all items that the person has not rated in the nine tenths; held-out ratings from three
quarters of the scale on are relevant. nDCG@10 is compared with that of EASE trained on the nine tenths themselves, and
with recommending what most people rated. Items that were not released are never recommended, and count as missed.

`--months N` releases the data N times as they grow, month by month, within one budget (`--shared-epsilon`).
`--parquet` names a directory that `python -m benchmarks.netflix_shaped` made. Prints JSON and stores it in
results/dp-synthetic.json, beside what earlier runs measured of other data.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import results
from tasks import pipeline
from tasks.config import parse
from tasks.data.ratings import Ratings
from tasks.engine import engine, single_threaded
from tasks.kernels import synthetic_rows
from tasks.kernels.noisy_statistics import NothingChosenError, noisy_statistics
from tasks.kernels.ranking import hits, ndcg, top_items
from tasks.keys import OwnerKey
from tasks.recommenders import ease
from tasks.recommenders._cells import gram
from tasks.steps import statistics, synthesis
from tasks.store import Store

DELTA = 1e-5
HELD_OUT, RELEVANT_FROM, LENGTH = 0.1, 0.75, 10
PEOPLE_AT_ONCE = 512
SPLIT_SEED = 7
GOALS = {"ml-1m": 0.70, "netflix-shaped": 0.85}  # of the original's nDCG@10, at epsilon 3
GOAL_EPSILON = 3.0
FORMATS = {"ml-100k": "movielens-100k", "ml-1m": "movielens-1m"}


@dataclass(frozen=True)
class Task:
    """Hold what recommenders are trained on and asked: known ratings, and relevant held-out ones."""

    known: sp.csr_array
    relevant: sp.csr_array
    scale: tuple[float, float]
    asked: np.ndarray  # people with a relevant held-out rating

    def ndcg_of(self, weights: np.ndarray | None, columns: np.ndarray) -> float:
        """Return the mean nDCG@10 of scores: own items times item-to-item weights; None: popularity."""
        popularity = np.bincount(self.known.indices, minlength=self.known.shape[1])
        many, found = np.diff(self.relevant.indptr), []
        for some in np.array_split(self.asked, -(-len(self.asked) // PEOPLE_AT_ONCE)):
            scores = np.full((len(some), self.known.shape[1]), np.float32(-1e9))
            if weights is None:
                scores[:] = popularity
            else:
                own = sp.csr_array(self.known[some][:, columns])
                own.data = np.ones_like(own.data)
                scores[:, columns] = own @ weights
            hit = hits(top_items(scores, sp.csr_array(self.known[some]), LENGTH), self.relevant[some])
            found.append(ndcg(hit, many[some]))
        return float(np.concatenate(found).mean())


def task_of(matrix: sp.csr_array, scale: tuple[float, float], people: int | None = None) -> Task:
    """Hold out a tenth of all ratings; ask at most `people` people."""
    rng = np.random.default_rng(SPLIT_SEED)
    out = rng.random(matrix.nnz) < HELD_OUT
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    known = sp.csr_array((matrix.data[~out], (row[~out], matrix.indices[~out])), shape=matrix.shape)
    wanted = out & (matrix.data >= scale[0] + RELEVANT_FROM * (scale[1] - scale[0]))
    relevant = sp.csr_array(
        (np.ones(wanted.sum(), np.int8), (row[wanted], matrix.indices[wanted])), shape=matrix.shape
    )
    known.sort_indices()
    asked = np.flatnonzero(np.diff(relevant.indptr))
    if people is not None and len(asked) > people:
        asked = np.sort(rng.choice(asked, people, replace=False))
    return Task(known, relevant, scale, asked)


def company(train: sp.csr_array) -> np.ndarray:
    """Return EASE's item-to-item weights, fitted to which items a row has.

    The part of `ease.fit` that ranks; the other part, for predicting ratings, would take as long again.
    """
    ones = sp.csr_array((np.ones(train.nnz, np.float32), train.indices, train.indptr), shape=train.shape)
    return ease.solve(gram(ones, np.ones(train.shape[0])), ease.RIDGE)


def of_original(task: Task, *, trained: bool = True) -> dict[str, Any]:
    """Return the yardsticks: EASE on the known ratings (where it is `trained`), and popularity."""
    every = np.arange(task.known.shape[1])
    return {
        "people": task.known.shape[0],
        "items": task.known.shape[1],
        "known_ratings": int(task.known.nnz),
        "people_asked": len(task.asked),
        "original": round(task.ndcg_of(company(task.known), every), 4) if trained else None,
        "popularity": round(task.ndcg_of(None, every), 4),
    }


def of_release(task: Task, budget: dict[str, Any], secret: int, original: float | None) -> dict[str, Any]:
    """Make a release of the known ratings, as the two steps do, and measure it."""
    config = parse(
        {
            "release": {"name": "benchmark"},
            "source": {"format": "csv", "path": "-", "scale": list(task.scale)},
            "privacy": {"method": "dp-synthetic", "budget": {"delta": DELTA, **budget}},
        }
    )
    key = OwnerKey(secret.to_bytes(32, "big")).noise("benchmark", *sorted(budget.items()))
    began = time.process_time()
    try:
        found = noisy_statistics(task.known, statistics.params(config).mechanism(), key.words)
    except NothingChosenError:
        return {"secret": secret, "items": 0, "ndcg": None, "share": None}
    count = max(found.users, synthesis.LEAST_ROWS)
    model = synthetic_rows.fit(found)
    rng = np.random.default_rng(secret)
    drawn = [synthetic_rows.draw(model, min(8192, count - first), rng)[0] for first in range(0, count, 8192)]
    rows = sp.csr_array(sp.vstack(drawn, format="csr"))
    cpu = time.process_time() - began
    value = task.ndcg_of(company(rows), found.columns)
    return {
        "secret": secret,
        "items": len(found.columns),
        "rows": count,
        "factors": model.loadings.shape[1],
        "epsilon_spent": round(found.spent(DELTA)["epsilon"], 4),
        "cpu_seconds": round(cpu, 1),
        "ndcg": round(value, 4),
        "share": round(value / original, 3) if original else None,
    }


def measure(task: Task, epsilons: list[float], secrets: int) -> dict[str, Any]:
    """Return the yardsticks and every release's figures."""
    yardstick = of_original(task)
    print(json.dumps(yardstick), file=sys.stderr, flush=True)
    releases = {}
    for epsilon in epsilons:
        found = [of_release(task, {"epsilon": epsilon}, one, yardstick["original"]) for one in range(secrets)]
        print(epsilon, json.dumps(found), file=sys.stderr, flush=True)
        shares = [one["share"] for one in found if one["share"] is not None]
        releases[f"{epsilon:g}"] = {
            "ndcg": round(float(np.mean([one["ndcg"] for one in found])), 4)
            if len(shares) == len(found)
            else None,
            "share": round(float(np.mean(shares)), 3) if len(shares) == len(found) else None,
            "releases": found,
        }
    return {**yardstick, "epsilon": releases}


def ratings_of(source: dict[str, Any], place: Path) -> Ratings:
    """Ingest a source."""
    config = parse({"release": {"name": "benchmark"}, "source": source, "series": {"mode": "independent"}})
    with engine(0) as here:
        run = pipeline.open_run(config, datetime.date(2026, 1, 1), Store(place), here, lambda *_: None)
        return Ratings(pipeline.execute("ingest", run)["path"])


def growing(ratings: Ratings, months: int) -> Iterator[tuple[str, sp.csr_array]]:
    """Yield the ratings up to the end of each month, from the second month on (few people rated in the first)."""
    times = ratings.timestamps
    assert times is not None, "the source has no timestamps"
    whole = ratings.by_user.whole()
    month = np.asarray(times).astype("datetime64[s]").astype("datetime64[M]")
    first = month.min() + 1
    row = np.repeat(np.arange(whole.shape[0]), np.diff(whole.indptr))
    for number in range(months):
        until = month <= first + number
        people, place = np.unique(row[until], return_inverse=True)
        yield (
            str(first + number),
            sp.csr_array(
                (whole.data[until], (place, whole.indices[until])), shape=(len(people), whole.shape[1])
            ),
        )


def measure_series(ratings: Ratings, months: int, epsilon: float, secrets: int) -> dict[str, Any]:
    """Return the figures of releases that share a budget: the first and the last with all secrets and beside the
    original, those between with one secret."""
    budget = {"epsilon": epsilon, "per": "population", "releases": months}
    snapshots = list(growing(ratings, months))
    found = {}
    for number, (name, matrix) in enumerate(snapshots):
        task = task_of(matrix, (1.0, 5.0))
        is_end = number in (0, len(snapshots) - 1)
        yardstick = of_original(task, trained=is_end)
        count = secrets if is_end else 1
        releases = [of_release(task, budget, one, yardstick["original"]) for one in range(count)]
        print(name, json.dumps(yardstick), json.dumps(releases), file=sys.stderr, flush=True)
        found[name] = {**yardstick, "releases": releases}
    return {"epsilon": epsilon, "months": months, "snapshots": found}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="directory that holds ml-100k and ml-1m")
    parser.add_argument("--sets", default="ml-100k,ml-1m")
    parser.add_argument("--epsilons", default="1,3,10")
    parser.add_argument("--secrets", type=int, default=3)
    parser.add_argument("--months", type=int, default=0)
    parser.add_argument("--shared-epsilon", type=float, default=6.0)
    parser.add_argument("--parquet", type=Path, help="ratings of Netflix's shape")
    parser.add_argument("--users-asked", type=int, default=5000)
    parser.add_argument("--results", type=Path, default=results.DIRECTORY / "dp-synthetic.json")
    asked = parser.parse_args()
    began = results.machine()
    epsilons = [float(one) for one in asked.epsilons.split(",")]
    names = [name for name in asked.sets.split(",") if name]
    figures = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    figures.pop("machine", None)
    bars = []
    with single_threaded():
        for name in names:
            with tempfile.TemporaryDirectory() as scratch:
                source: dict[str, Any] = {"format": FORMATS[name], "path": str(asked.data / name)}
                ratings = ratings_of(source, Path(scratch))
                figures[name] = measure(task_of(ratings.by_user.whole(), (1.0, 5.0)), epsilons, asked.secrets)
        if asked.months:
            with tempfile.TemporaryDirectory() as scratch:
                source = {"format": FORMATS["ml-1m"], "path": str(asked.data / "ml-1m")}
                figures["series"] = measure_series(
                    ratings_of(source, Path(scratch)), asked.months, asked.shared_epsilon, asked.secrets
                )
        if asked.parquet is not None:
            with tempfile.TemporaryDirectory() as scratch:
                source = {"format": "parquet", "path": str(asked.parquet / "*.parquet"), "scale": [1.0, 5.0]}
                whole = ratings_of(source, Path(scratch)).by_user.whole()
                task = task_of(whole, (1.0, 5.0), asked.users_asked)
                figures["netflix-shaped"] = measure(task, epsilons, asked.secrets)
    for name, goal in GOALS.items():
        reached = figures.get(name, {}).get("epsilon", {}).get(f"{GOAL_EPSILON:g}")
        if reached is not None:
            bars.append(results.Bar(f"{name}: share of the original's nDCG@10", reached["share"], "≥", goal))
    results.write(asked.results, figures, began)
    print(json.dumps(figures, indent=1))
    return results.verdict(bars)


if __name__ == "__main__":
    sys.exit(main())
