"""Measure releases of catalogues with many more items than people: `python -m benchmarks.many_items [--shapes …]`.

Two shapes of long-tailed catalogues: 7,375 users × 105,114 items with 284,000 ratings (padded, k=5) and 22,164 users ×
296,277 items with 900,000 ratings (padded and simple, k=20). Most items have one or two ratings, so that an array of
groups × items or users × items is hundreds of times as large as the ratings. Prints CPU seconds, wall and the peak of
all processes per stage; the bars are those of the gate's memory. `--steps` stops before the gate.

The ratings are made up: every item has at least one, the others follow a power law of popularity and a log-normal
activity; people rate mood + item + affinity + noise and prefer what they like, as in benchmarks/netflix_shaped.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import results
from benchmarks.results import Bar
from benchmarks.stages import ANONYMIZATION, GATE, measure, own, say, total

GIB = 2**30
GATE_GIB = 3.0
TASTES = 8
USER_SD, ITEM_SD, TASTE_SD, NOISE_SD = 0.42, 0.40, 0.45, 0.80
MEAN = 3.6
CHOICE = 1.5  # how strongly taste steers what is rated at all
ACTIVITY_SD = 1.1  # of the logarithm of the ratings per person
POPULARITY_POWER = 0.75  # weight of the item of rank r: r ** -POPULARITY_POWER
LEAST_PER_USER = 2


@dataclass(frozen=True)
class Shape:
    """Hold the size of a catalogue and the releases that are measured of it: method and k."""

    users: int
    items: int
    ratings: int
    releases: tuple[tuple[str, int], ...]


SHAPES = {
    "7k": Shape(7_375, 105_114, 284_000, (("predictive-padded", 5),)),
    "22k": Shape(22_164, 296_277, 900_000, (("predictive-padded", 20), ("predictive-simple", 20))),
}


def draw(users: int, items: int, ratings: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw ratings: each (user, item) once, every item at least once, every user at least `LEAST_PER_USER` times."""
    if not max(items, LEAST_PER_USER * users) <= ratings // 2 + items // 2 + users <= users * items:
        raise SystemExit(f"{ratings:,} ratings of {items:,} items by {users:,} users are not possible")
    rng = np.random.default_rng([seed, users, items])
    activity = np.exp(ACTIVITY_SD * rng.standard_normal(users))
    activity /= activity.sum()
    popularity = rng.permutation(np.arange(1, items + 1) ** -POPULARITY_POWER)
    popularity /= popularity.sum()
    mood, worth = USER_SD * rng.standard_normal(users), ITEM_SD * rng.standard_normal(items)
    tastes = rng.standard_normal((users, TASTES)) * (TASTE_SD / TASTES**0.25)
    traits = rng.standard_normal((items, TASTES)) / TASTES**0.25

    def affinity(cells: np.ndarray) -> np.ndarray:
        user, item = np.divmod(cells, items)
        return np.einsum("ct,ct->c", tastes[user], traits[item])

    owed_items = rng.choice(users, items, p=activity) * items + np.arange(items)
    owed_users = np.repeat(np.arange(users), LEAST_PER_USER) * items
    owed_users += rng.choice(items, len(owed_users), p=popularity)
    cells = np.unique(np.concatenate([owed_items, owed_users]))
    while len(cells) < ratings:
        some = 2 * (ratings - len(cells)) + 1_000
        drawn = rng.choice(users, some, p=activity) * items + rng.choice(items, some, p=popularity)
        liked = rng.random(some) < 1 / (1 + np.exp(-CHOICE * affinity(drawn)))
        fresh = np.setdiff1d(drawn[liked], cells)
        cells = np.union1d(cells, rng.permutation(fresh)[: ratings - len(cells)])
    user, item = np.divmod(cells, items)
    liking = MEAN + mood[user] + worth[item] + affinity(cells) + NOISE_SD * rng.standard_normal(len(cells))
    rating = np.clip(np.rint(liking), 1, 5).astype(np.float32)
    return {"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating}


def make_data(directory: Path, shape: Shape) -> Path:
    """Return a directory with one Parquet file of ratings, made unless it is there."""
    file = directory / "part-00000.parquet"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        say(f"making {shape.ratings:,} ratings of {shape.items:,} items by {shape.users:,} users")
        pq.write_table(pa.table(draw(shape.users, shape.items, shape.ratings)), file, compression="zstd")
    return directory


def config(name: str, data: Path, method: str, k: int) -> dict[str, Any]:
    """Return the settings of a measured release."""
    return {
        "release": {"name": name},
        "source": {"format": "parquet", "path": str(data), "scale": [1.0, 5.0]},
        "privacy": {"method": method, "k": k},
    }


def warm_up(scratch: Path, workers: int) -> None:
    """Make small releases that are not counted, so that everything is compiled and imported once."""
    few = Shape(700, 1_500, 9_000, ())
    data = make_data(scratch / "warm-up-data", few)
    for method in ("predictive-padded", "predictive-simple"):
        measure(config("warm-up", data, method, 5), scratch / "warm-up-store" / method, workers=workers)


def show(name: str, method: str, run: dict[str, Any]) -> str:
    """Tabulate the stages of one release."""
    rows = [[f"{name}, {method}, k={run['k']}", "CPU-s", "wall s", "peak MiB"]]
    rows += [
        [
            stage["name"],
            f"{stage['cpu_seconds']:,.1f}",
            f"{stage['wall_seconds']:,.1f}",
            f"{stage['peak_bytes'] / 2**20:,.0f}",
        ]
        for stage in run["stages"]
    ]
    walls = sum(stage["wall_seconds"] for stage in own(run["stages"]))
    whole = f"{total(run['stages']):,.1f}"
    rows.append(["whole", whole, f"{walls:,.1f}", f"{run['peak_bytes'] / 2**20:,.0f}"])
    return results.table(rows)


def bars(name: str, method: str, run: dict[str, Any]) -> list[Bar]:
    """Return the bar of the gate's memory, where the gate has run."""
    peaks = [stage["peak_bytes"] / GIB for stage in own(run["stages"]) if stage["name"] in GATE]
    return (
        [Bar(f"{name}, {method}: peak memory of the gate", max(peaks), "≤", GATE_GIB, "GiB")] if peaks else []
    )


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help=f"of {', '.join(SHAPES)} (default: all)")
    parser.add_argument("--methods", help="only these methods of the shapes' releases")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--without-gate", action="store_true", help="stop after evaluate")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where data and stores are made and kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: results/many-items.json if whole")
    asked = parser.parse_args(given)
    asked.shapes = asked.shapes.split(",")
    if unknown := set(asked.shapes) - set(SHAPES):
        parser.error(f"unknown shapes: {', '.join(sorted(unknown))}")
    asked.command = results.command("benchmarks.many_items", asked, "workers")
    if asked.json is None:
        whole = asked.shapes == list(SHAPES) and not asked.methods and not asked.without_gate
        asked.json = results.DIRECTORY / ("many-items.json" if whole else "many-items.local.json")
    return asked


def main(given: list[str] | None = None) -> int:
    asked, began = arguments(given), results.machine()
    runs: list[dict[str, Any]] = []
    found: list[Bar] = []
    with tempfile.TemporaryDirectory(prefix="murmur-many-items-") as temporary:
        scratch = (asked.scratch or Path(temporary)).resolve()
        warm_up(Path(temporary), asked.workers)
        for name in asked.shapes:
            shape = SHAPES[name]
            data = make_data(scratch / f"data-{name}", shape)
            for method, k in shape.releases:
                if asked.methods and method not in asked.methods.split(","):
                    continue
                say(f"{name}, {method}, k={k}")
                steps = list(ANONYMIZATION) if asked.without_gate else None
                release = config(f"many-{name}", data, method, k)
                run = measure(release, scratch / f"store-{name}-{method}", workers=asked.workers, steps=steps)
                del run["references"]
                print(show(name, method, run), flush=True)
                found += bars(name, method, run)
                runs.append(
                    {"shape": name, "users": shape.users, "items": shape.items, "method": method, **run}
                )
    figures = {"command": asked.command, "runs": runs, "bars": [bar.to_json() for bar in found]}
    results.write(asked.json, figures, began)
    return results.verdict(found)


if __name__ == "__main__":
    sys.exit(main())
