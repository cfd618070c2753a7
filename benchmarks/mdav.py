"""Measure microaggregation beside the textbook, by CPU time: `python -m benchmarks.mdav [--json FILE]`.

One process, one thread. Both must form the same groups, record by record. Exits 1 where the bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks import results
from benchmarks.kernels import Line, padded, speed, table
from benchmarks.timing import cpu_seconds
from tasks.engine import single_threaded
from tasks.kernels.mdav import mdav, v_mdav
from tests.tasks.kernels.plain_mdav import plain_mdav, plain_v_mdav

BAR = 8.0
ROUNDS = 3  # of ours; the textbook takes long enough to be timed once


def z_scores(rows: int, columns: int) -> np.ndarray:
    """Make records like those of microaggregation: low rank and noise, every column standardised."""
    points = padded(rows, columns).astype(np.float64)
    return (points - points.mean(axis=0)) / points.std(axis=0)


def compare(
    name: str, ours: Callable[[], np.ndarray], textbook: Callable[[], np.ndarray], bar: float | None
) -> Line:
    """Time both on the same records; their groups must be equal."""
    found: dict[str, np.ndarray] = {}
    mine = min(cpu_seconds(lambda: found.update(ours=ours())) for _ in range(ROUNDS))
    theirs = cpu_seconds(lambda: found.update(textbook=textbook()))
    assert np.array_equal(found["ours"], found["textbook"]), f"{name}: the groups are not the textbook's"
    return speed(name, mine, theirs, bar)


def benchmark(scale: float = 1.0) -> list[Line]:
    """Compare both algorithms; `scale` below 1 reduces the number of records, for tests."""
    many, few = z_scores(int(24_000 * scale), 100), z_scores(int(2_000 * scale), 100)
    mdav(few[:50], 5)  # compile
    v_mdav(few[:50], 5, 1.1)
    size, smaller = f"{len(many):,}×{many.shape[1]}", f"{len(few):,}×{few.shape[1]}"
    return [
        compare(
            f"MDAV {size}, k=10, vs textbook NumPy", lambda: mdav(many, 10), lambda: plain_mdav(many, 10), BAR
        ),
        compare(
            f"V-MDAV {smaller}, k=5, γ=1.1, vs textbook NumPy",
            lambda: v_mdav(few, 5, 1.1),
            lambda: plain_v_mdav(few, 5, 1.1),
            None,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the lines to this file")
    arguments, began = parser.parse_args(), results.machine()
    with single_threaded():
        lines = benchmark()
    print(table(lines))
    if arguments.json:
        results.write(arguments.json, {"lines": [asdict(line) for line in lines]}, began)
    return 0 if all(line.passed for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
