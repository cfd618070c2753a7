"""Measure peers on a slice of the same data, in the same run, by CPU time: metric, factorization and grouping.

Ours and the peers' runs alternate; the best of each are compared. A peer that cannot be imported is in the results
as "not installed". What is minimised differs: implicit solves weighted systems of the same shape, our groups follow
the paper's metric and only then the sum of squares (SSE), which MDAV and k-means-constrained follow alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from benchmarks.naive import mdav, naive_distances, sum_of_squares
from benchmarks.timing import best_of, cpu_seconds
from tasks.data.factors import open_model
from tasks.data.ratings import Ratings
from tasks.data.similarity import Similarity
from tasks.kernels import als
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.kernels.group_tightening import tighten_groups
from tasks.kernels.metrics import distances
from tasks.kernels.rating_vectors import RatingVectors

METRIC, MAX_DIFF = "weighted-squared", 4.0
METRIC_ROWS = 100
FACTORIZATION_USERS, FACTORIZATION_ITERATIONS = 10_000, 3
GROUPING_USERS = 500

Measured = TypeVar("Measured")


def measure_peers(ingest: Path, padding: Path, ks: list[int]) -> dict[str, Any]:
    """Run all comparisons, on users drawn from a release's own padded data."""
    model = open_model(padding)
    users = np.random.default_rng(0).permutation(model.shape[0])
    first, second = np.sort(users[:METRIC_ROWS]), np.sort(users[METRIC_ROWS : 2 * METRIC_ROWS])
    some = np.sort(users[:GROUPING_USERS])
    similarity = Similarity(metric=METRIC, max_diff=MAX_DIFF, keep_observed=False)
    points = similarity.points(ingest, padding, some)
    ratings = Ratings(ingest).by_user.take(np.sort(users[:FACTORIZATION_USERS]))
    rank = model.users.shape[1] - 2
    return {
        "metric": compare_metric(model.rows(first), model.rows(second)),
        "factorization": compare_factorization(ratings, rank),
        "grouping": [compare_grouping(points, model.rows(some), k) for k in ks if len(some) >= 2 * k],
    }


def compare_metric(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Compare the paper's metric: our kernel beside naive NumPy, CPU seconds per distance."""
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    distances(x, y, metric=METRIC, max_diff=MAX_DIFF)
    ours, naive = best_of(
        3,
        lambda: distances(x, y, metric=METRIC, max_diff=MAX_DIFF),
        lambda: naive_distances(wide_x, wide_y, MAX_DIFF),
    )
    pairs = len(x) * len(y)
    return {
        "rows": [len(x), len(y)],
        "columns": x.shape[1],
        "ours_seconds": ours / pairs,
        "naive_seconds": naive / pairs,
        "ratio": naive / ours,
    }


def compare_factorization(ratings: sp.csr_array, rank: int) -> dict[str, Any]:
    """Compare alternating least squares with exact solvers: CPU seconds per iteration."""
    csr, csc = sp.csr_matrix(ratings), sp.csc_matrix(ratings)
    rounds = FACTORIZATION_ITERATIONS

    def ours() -> None:
        als.factorize(csr, csc, rank=rank, iterations=rounds, rng=np.random.default_rng(0))

    def with_implicit(peer: Any) -> None:
        options = {"factors": rank, "use_cg": False, "num_threads": 1, "iterations": rounds}
        peer.AlternatingLeastSquares(**options, random_state=0).fit(csr, show_progress=False)

    def with_cmfrec(peer: Any) -> None:
        exact = {"method": "als", "use_cg": False, "use_float": True, "niter": rounds, "nthreads": 1}
        lean = {"precompute_for_predictions": False, "produce_dicts": False, "verbose": False}
        peer.CMF(k=rank, **exact, **lean).fit(csr.tocoo())

    ours()
    size = {"ratings": int(csr.nnz), "users": csr.shape[0], "rank": rank}
    result: dict[str, Any] = {**size, "ours_seconds": cpu_seconds(ours) / rounds, "peers": {}}
    for name, module, fit in (
        ("implicit", "implicit.cpu.als", with_implicit),
        ("cmfrec", "cmfrec", with_cmfrec),
    ):
        found = _peer(module, partial(_time_in_turn, fit, ours))
        if isinstance(found, str):
            result["peers"][name] = found
            continue
        theirs, ours_beside = (seconds / rounds for seconds in found)
        result["ours_seconds"] = min(result["ours_seconds"], ours_beside)
        result["peers"][name] = _ratio(theirs, ours_beside)
    return result


def _time_in_turn(fit: Callable[[Any], None], ours: Callable[[], object], peer: Any) -> list[float]:
    """Return the best CPU seconds of the peer's fit and of ours, taken in turn."""
    return best_of(2, lambda: fit(peer), ours)


def compare_grouping(points: RatingVectors, rows: np.ndarray, k: int) -> dict[str, Any]:
    """Compare groups of at least k on one slice: CPU seconds and SSE. Our kernel gets the vectors in the form of
    the clustering step; the peers get the same vectors as dense rows."""
    t = len(rows) // k
    made: dict[str, np.ndarray] = {}

    def ours() -> None:
        measure: dict[str, Any] = {"metric": METRIC, "max_diff": MAX_DIFF, "iterations": 10}
        labels, _ = bounded_tmeans(points, t=t, min_size=k, **measure, rng=np.random.default_rng(0))
        made["ours"] = tighten_groups(points, labels, min_size=k)

    def textbook() -> None:
        made["MDAV"] = mdav(rows, k)

    def constrained(peer: Any) -> None:
        model = peer.KMeansConstrained(n_clusters=t, size_min=k, n_init=1, random_state=0)
        made["k-means-constrained"] = model.fit_predict(rows)

    ours()
    best, by_mdav = best_of(2, ours, textbook)
    sse = sum_of_squares(rows, made["ours"])
    found: dict[str, float | str] = {
        "MDAV": by_mdav,
        "k-means-constrained": _peer(
            "k_means_constrained", lambda peer: cpu_seconds(lambda: constrained(peer))
        ),
    }
    peers: dict[str, Any] = {}
    for name, seconds in found.items():
        if isinstance(seconds, str):
            peers[name] = seconds
            continue
        assert np.bincount(made[name]).min() >= k
        theirs = sum_of_squares(rows, made[name])
        peers[name] = {**_ratio(seconds, best), "sse": theirs, "sse_ratio": sse / theirs}
    size = {"users": len(rows), "columns": rows.shape[1], "k": k}
    return {**size, "ours_seconds": best, "ours_sse": sse, "peers": peers}


def _ratio(theirs: float, ours: float) -> dict[str, float]:
    return {"seconds": theirs, "ratio": theirs / ours}


def _peer(module: str, measured: Callable[[Any], Measured]) -> Measured | str:
    """Measure with the peer's module, or report that it is not installed."""
    try:
        peer = import_module(module)
    except ImportError:
        return "not installed"
    return measured(peer)


def describe(peers: dict[str, Any]) -> list[str]:
    """Return one line per comparison."""

    def line(what: str, name: str, peer: dict[str, float] | str, ours: float) -> str:
        if isinstance(peer, str):
            return f"{what} vs {name}: {peer}"
        squares = f", SSE ours/theirs {peer['sse_ratio']:.3f}" if "sse_ratio" in peer else ""
        return (
            f"{what} vs {name}: {ours:.3g} against {peer['seconds']:.3g} CPU-s, {peer['ratio']:.1f}×{squares}"
        )

    metric, factors = peers["metric"], peers["factorization"]
    naive = {"seconds": metric["naive_seconds"], "ratio": metric["ratio"]}
    lines = [
        line(f"a distance over {metric['columns']:,} items", "naive NumPy", naive, metric["ours_seconds"])
    ]
    what = f"ALS iteration, {factors['ratings']:,} ratings, rank {factors['rank']}"
    lines += [line(what, name, peer, factors["ours_seconds"]) for name, peer in factors["peers"].items()]
    for grouping in peers["grouping"]:
        what = f"groups of {grouping['users']}×{grouping['columns']:,}, k={grouping['k']}"
        lines += [
            line(what, name, peer, grouping["ours_seconds"]) for name, peer in grouping["peers"].items()
        ]
    return lines
