"""Measure the kernels beside their peers, in one run, by CPU time: `python -m benchmarks.kernels [--json FILE]`.

The machine may be noisy: only ratios within one run count. Ours and the peer's runs alternate; the best of
each are compared. The data are synthetic, with low-rank structure. Exits 1 if a bar is missed.

A line without a bar informs only: at Netflix's width naive NumPy spends little of its time on calls, and the
metric is 25 to 32 times as fast, not the 40 times that it must reach at MovieLens 1M's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import results
from benchmarks.naive import naive_distances, sum_of_squares
from benchmarks.timing import best_of
from tasks.kernels import als
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.kernels.metrics import distances


@dataclass(frozen=True)
class Line:
    """Represent one comparison: peer/ours must reach the bar for speed, ours/peer must not exceed it for SSE."""

    kernel: str
    unit: str
    ours: float
    peer: float
    ratio: float
    bar: float | None
    passed: bool


def speed(kernel: str, ours: float, peer: float, bar: float | None) -> Line:
    return Line(kernel, "CPU-s", ours, peer, peer / ours, bar, bar is None or peer / ours >= bar)


def sum_of_squares_line(kernel: str, ours: float, peer: float, bar: float) -> Line:
    return Line(kernel, "SSE", ours, peer, ours / peer, bar, ours / peer <= bar)


def padded(rows: int, columns: int, rank: int = 16, seed: int = 0) -> np.ndarray:
    """Make rating vectors like those of padding: low rank, plus the effect of single observed ratings."""
    rng = np.random.default_rng(seed)
    users = rng.normal(size=(rows, rank)) * np.linspace(1.0, 0.3, rank)
    noise = 0.05 * rng.normal(size=(rows, columns))
    return (3.5 + 0.15 * users @ rng.normal(size=(rank, columns)) + noise).astype(np.float32)


def factors(rows: int, rank: int, seed: int = 0) -> np.ndarray:
    """Make users in factor space, the input of Euclidean clustering of a low-rank matrix."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, rank)) * np.linspace(1.0, 0.3, rank)).astype(np.float32)


def ratings(users: int = 6_040, items: int = 3_706, count: int = 1_200_000) -> sp.csr_matrix:
    """Make about a million ratings (repeated cells merge), as skewed over users and items as MovieLens 1M."""
    rng = np.random.default_rng(0)
    activity, popularity = rng.lognormal(0, 1, users), rng.lognormal(0, 1.2, items)
    user = rng.choice(users, count, p=activity / activity.sum())
    item = rng.choice(items, count, p=popularity / popularity.sum())
    cells = np.unique(user.astype(np.int64) * items + item)
    user, item = np.divmod(cells, items)
    taste = rng.normal(0, 0.3, (users, 8)), rng.normal(0, 0.8, (items, 8))
    values = 3.5 + np.einsum("rf,rf->r", taste[0][user], taste[1][item]) + rng.normal(0, 0.9, len(cells))
    return sp.csr_matrix((np.clip(np.rint(values), 1, 5).astype(np.float32), (user, item)), (users, items))


def benchmark_metric() -> list[Line]:
    lines = []
    for name, columns, rows, bar in (("ML-1M", 3_706, 64, 40.0), ("Netflix", 17_770, 64, None)):
        x, y = padded(rows, columns), padded(rows, columns, seed=1)
        wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
        repeats = 8  # one call is too short for the clock

        def ours(x: np.ndarray = x, y: np.ndarray = y, repeats: int = repeats) -> None:
            for _ in range(repeats):
                distances(x, y, metric="weighted-squared", max_diff=4.0)

        def peer(x: np.ndarray = wide_x, y: np.ndarray = wide_y) -> None:
            naive_distances(x, y, 4.0)

        ours()
        mine, theirs = best_of(5, ours, peer)
        lines.append(speed(f"weighted-squared, {name} width, vs naive NumPy", mine / repeats, theirs, bar))
    return lines


def benchmark_als() -> list[Line]:
    from implicit.cpu.als import AlternatingLeastSquares

    csr = ratings()
    csc = csr.tocsc()
    lines = []
    for rank in (16, 32):
        iterations = 3

        def ours(rank: int = rank, iterations: int = iterations) -> None:
            als.factorize(csr, csc, rank=rank, iterations=iterations, rng=np.random.default_rng(0))

        def peer(rank: int = rank, iterations: int = iterations) -> None:
            model = AlternatingLeastSquares(
                factors=rank, use_cg=False, num_threads=1, iterations=iterations, random_state=0
            )
            model.fit(csr, show_progress=False)

        ours()
        mine, theirs = best_of(3, ours, peer)
        name = f"ALS iteration, {csr.nnz:,} ratings, rank {rank}, vs implicit (exact)"
        lines.append(speed(name, mine / iterations, theirs / iterations, 3.0))
    return lines


def benchmark_bounded_tmeans() -> list[Line]:
    from k_means_constrained import KMeansConstrained

    shapes: list[tuple[Callable[[int], np.ndarray], int]] = [
        (lambda seed: factors(400, 17, seed), 5),
        (lambda seed: factors(1_000, 32, seed), 5),
        (lambda seed: factors(1_000, 32, seed), 50),
        (lambda seed: padded(80, 3_706, 16, seed), 5),
        (lambda seed: padded(200, 3_706, 16, seed), 20),
    ]
    lines = []
    for make, k in shapes:
        seeds = range(5)  # sums over several data sets: a single start may be lucky
        data = [make(seed) for seed in seeds]
        t = len(data[0]) // k
        found: dict[tuple[str, int], np.ndarray] = {}

        def ours(data: list[np.ndarray] = data, t: int = t, k: int = k, found: dict = found) -> None:
            for seed, points in enumerate(data):
                rng = np.random.default_rng(seed)
                found["ours", seed], _ = bounded_tmeans(
                    points, t=t, min_size=k, metric="euclidean", max_diff=4.0, iterations=10, rng=rng
                )

        def peer(data: list[np.ndarray] = data, t: int = t, k: int = k, found: dict = found) -> None:
            for seed, points in enumerate(data):
                model = KMeansConstrained(n_clusters=t, size_min=k, n_init=1, random_state=seed)
                found["peer", seed] = model.fit_predict(points)

        ours()
        mine, theirs = best_of(2, ours, peer)
        for labels in found.values():
            assert np.bincount(labels, minlength=t).min() >= k
        squares = {
            who: sum(sum_of_squares(data[seed], found[who, seed]) for seed in seeds)
            for who in ("ours", "peer")
        }
        name = f"bounded t-means {data[0].shape[0]}×{data[0].shape[1]}, k={k}, vs k-means-constrained"
        lines.append(speed(name, mine / len(data), theirs / len(data), 2.0))
        lines.append(sum_of_squares_line(name, squares["ours"], squares["peer"], 1.015))
    return lines


def table(lines: list[Line]) -> str:
    rows = [("kernel", "unit", "ours", "peer", "ratio", "bar", "pass")]
    for line in lines:
        bar = "none" if line.bar is None else f"{'≥' if line.unit == 'CPU-s' else '≤'} {line.bar:g}"
        ratio = f"{line.ratio:.1f}" if line.unit == "CPU-s" else f"{line.ratio:.3f}"
        passed = "–" if line.bar is None else "yes" if line.passed else "NO"
        rows.append((line.kernel, line.unit, f"{line.ours:.4g}", f"{line.peer:.4g}", ratio, bar, passed))
    return results.table(rows, left=2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the lines to this file")
    arguments, began = parser.parse_args(), results.machine()
    lines = [*benchmark_metric(), *benchmark_als(), *benchmark_bounded_tmeans()]
    print(table(lines))
    if arguments.json:
        results.write(arguments.json, {"lines": [asdict(line) for line in lines]}, began)
    return 0 if all(line.passed for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
