"""Measure homogenization at Netflix's size, by CPU time: `python -m benchmarks.output [--users N] [--items N]`.

The whole step of a padded release at k=5 (multiply out, encode, write, digest), on random factors: what is written does
not depend on whose they are, and the steps before it take minutes. Three rounds; memory that the machine has never
touched costs the first of them more, so all are shown and the slowest is held to the bar. Exits 1 where it is missed.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import results
from benchmarks.netflix import MCELLS_PER_CPU_SECOND, OUTPUT_K
from benchmarks.netflix_shaped import ITEMS, USERS
from benchmarks.results import Bar
from tasks import pipeline
from tasks.config import parse
from tasks.data.ratings import write_ids
from tasks.engine import engine
from tasks.store import Store, remove, write_json

FACTORS = 18  # rank 16 and both biases
ROUNDS = 3
INPUTS = ("ingest", "padding", "clustering")


def make_inputs(place: Path, users: int, items: int) -> dict[str, dict]:
    """Write the results of the preceding steps: ids, a model, groups of k."""
    rng = np.random.default_rng(0)
    for name in INPUTS:
        (place / name).mkdir()
    write_ids(place / "ingest", "user", [str(number) for number in range(users)])
    write_ids(place / "ingest", "item", [str(number) for number in range(items)])
    for name, rows, size in (("users", users, 0.4), ("items", items, 0.3)):
        np.save(place / "padding" / f"{name}.npy", rng.normal(0, size, (rows, FACTORS)).astype(np.float32))
    write_json(place / "padding" / "model.json", {"mean": 3.6})
    groups = np.minimum(np.arange(users) // OUTPUT_K, users // OUTPUT_K - 1)
    np.save(place / "clustering" / "labels.npy", rng.permutation(groups).astype(np.int32))
    return {name: {"path": str(place / name), "digest": name, "counts": {}} for name in INPUTS}


def measure(users: int, items: int, scratch: Path) -> list[float]:
    """Return million cells per CPU second of each round."""
    config = parse(
        {
            "release": {"name": "output"},
            "source": {"format": "csv", "path": "-", "scale": [1.0, 5.0]},
            "privacy": {"method": "predictive-padded", "k": OUTPUT_K},
        }
    )
    given, rates = make_inputs(scratch, users, items), []
    with engine(0) as here:
        opened = pipeline.open_run(config, datetime.date(2026, 1, 1), Store(scratch / "store"), here, _silent)
        for _ in range(ROUNDS):
            run = replace(opened, given=dict(given), seconds={})
            made = pipeline.execute("homogenization", run)
            rates.append(made["counts"]["cells"] / 1e6 / max(run.seconds["homogenization"], 1e-9))
            remove(run.work)
    return rates


def _silent(step: str, done: int, total: int) -> None:
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--items", type=int, default=ITEMS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="murmur-output-") as place:
        rates = measure(asked.users, asked.items, Path(place))
    print("rounds: " + ", ".join(f"{results.number(rate)} Mcell per CPU-s" for rate in rates))
    return results.verdict(
        [Bar("homogenization, slowest round", min(rates), "≥", MCELLS_PER_CPU_SECOND, "Mcell per CPU-s")]
    )


if __name__ == "__main__":
    sys.exit(main())
