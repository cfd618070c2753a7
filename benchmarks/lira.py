"""Infer membership with shadow releases (LiRA, [Carlini2022]): `python -m benchmarks.lira [--shadows 64] [--padded]`.

Releases are made of random halves of MovieLens 100K. For each person attacked and each signal the attacker fits two
normal distributions, of the signal in shadows with and without the person, and scores a further release by their
likelihood ratio. Every release is attacked with all others as its shadows. The signals are those of the check
row-membership, and how often the person's items come together beyond the mean of all releases, among the rows and in
the noisy sums behind them, which nobody but the owner has; for padded releases the nearest profile and the place in
the release's directions.

Printed: area under the curve and the share of members found at 1 % false alarms, by the best signal, chosen on half of
the people and measured on the other; and what epsilon allows for the worst person: the Gaussian trade-off of the ρ that
is spent ([Dong2022]), and (ε, δ) alone.
"""

from __future__ import annotations

import argparse
import datetime
import math
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from scipy.stats import norm, rankdata

from benchmarks import results
from benchmarks.dp_audit import DELTA, SCALE, movielens_100k
from checks.synthetic.signals import NAMES, RowModel, measure
from tasks import methods, pipeline
from tasks.config import parse
from tasks.data import profiles
from tasks.engine import engine
from tasks.kernels import synthetic_rows
from tasks.kernels.noisy_statistics import NothingChosenError, Settings, noisy_statistics
from tasks.kernels.privacy_accounting import allowance
from tasks.keys import OwnerKey
from tasks.store import Store

EPSILONS = (1.0, 3.0, 10.0)
TARGETS = 300
ROWS = 5_000
FALSE_ALARMS = 0.01
LEVELS = np.arange(1.0, 6.0)
OWNER = OwnerKey(b"benchmark of membership, no secret")
ROW_SIGNALS = (*NAMES, "pairs of the rows", "noisy sums of pairs")
PROFILE_SIGNALS = ("nearest profile", "directions of the release")


@dataclass(frozen=True)
class Measured:
    """Hold signals: releases × people × signals, and which people were in which release."""

    signals: np.ndarray
    inside: np.ndarray
    names: tuple[str, ...]


def synthetic(ratings: sp.csr_array, targets: np.ndarray, halves: np.ndarray, epsilon: float) -> Measured:
    """Measure releases of synthetic rows."""
    one = allowance(epsilon, DELTA)
    settings = Settings(rho=one.rho, failure=one.failure, epsilon=epsilon, scale=SCALE)
    found, sums = [], []
    for number, half in enumerate(halves):
        words = OWNER.noise("lira", epsilon, number).words
        try:
            stats = noisy_statistics(sp.csr_array(ratings[half]), settings, words)
        except NothingChosenError:  # nothing was released
            found.append(np.zeros((len(targets), len(NAMES))))
            continue
        cells, levels = synthetic_rows.draw(
            synthetic_rows.fit(stats), ROWS, OWNER.rng("lira", epsilon, number)
        )
        rows = sp.csr_array((3 + levels / 4, cells.indices, cells.indptr), shape=cells.shape)
        people = sp.csr_array(ratings[targets][:, stats.columns])
        people.sort_indices()
        found.append(measure(RowModel(rows, LEVELS), people))
        pattern = _pattern(rows)
        together = (pattern.T @ pattern).toarray() / ROWS
        sums.append((number, stats.columns, together, stats.pairs / stats.limits.pairs))
    beyond = [_beyond_the_mean(sums, which, _pattern(ratings[targets]), len(halves)) for which in (2, 3)]
    return Measured(np.concatenate([np.array(found), *beyond], axis=2), halves[:, targets], ROW_SIGNALS)


def _pattern(ratings: sp.csr_array) -> sp.csr_array:
    found = sp.csr_array(ratings, copy=True)
    found.data = np.ones(found.nnz, np.float32)
    return found


def _beyond_the_mean(
    sums: list[tuple[Any, ...]], which: int, known: sp.csr_array, releases: int
) -> np.ndarray:
    """Return, for each release and person, what the sums over the person's pairs of items have beyond their mean over
    all releases that chose both items: other people's part, as far as the attacker can know it."""
    found = np.zeros((releases, known.shape[0], 1))
    if not sums:
        return found
    items = np.unique(np.concatenate([columns for _, columns, *_ in sums]))
    own = known[:, items].toarray()
    tables = np.full((len(sums), len(items), len(items)), np.nan, np.float32)
    for table, one in zip(tables, sums, strict=True):
        place = np.searchsorted(items, one[1])
        table[np.ix_(place, place)] = np.triu(one[which])
    seen = np.maximum((~np.isnan(tables)).sum(axis=0), 1)
    mean = np.nansum(tables, axis=0) / seen
    for table, one in zip(tables, sums, strict=True):
        found[one[0], :, 0] = ((own @ np.nan_to_num(table - mean)) * own).sum(axis=1)
    return found


def padded(ratings: sp.csr_array, targets: np.ndarray, halves: np.ndarray, k: int) -> Measured:
    """Measure padded releases of groups of k."""
    found = []
    for number, half in enumerate(halves):
        table = _padded_profiles(sp.csr_array(ratings[half]), k, number)
        centre = table.mean(axis=0)
        _, values, directions = np.linalg.svd(table - centre, full_matrices=False)
        kept = values > 1e-3 * values[0]
        people = sp.csr_array(ratings[targets])
        signals = np.zeros((len(targets), 2))
        for row in range(len(targets)):
            part = slice(people.indptr[row], people.indptr[row + 1])
            own, value = people.indices[part], people.data[part]
            signals[row, 0] = -((table[:, own] - value) ** 2).mean(axis=1).min()
            away = value - centre[own]
            signals[row, 1] = float(np.linalg.norm(directions[kept][:, own] @ away)) / max(
                float(np.linalg.norm(away)), 1e-9
            )
        found.append(signals)
        print(f"padded {number + 1} of {len(halves)}", file=sys.stderr, flush=True)
    return Measured(np.array(found), halves[:, targets], PROFILE_SIGNALS)


def _padded_profiles(ratings: sp.csr_array, k: int, number: int) -> np.ndarray:
    """Return the profiles of a padded release, on all items of the data set (0 where an item has no rater)."""
    with tempfile.TemporaryDirectory(prefix="murmur-") as place, engine(0) as crew:
        path = Path(place) / "ratings.csv"
        user = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
        lines = (f"{u},{i},{r:g}" for u, i, r in zip(user, ratings.indices, ratings.data, strict=True))
        path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
        config = parse(
            {
                "release": {"name": "lira"},
                "source": {"format": "csv", "path": str(path), "scale": list(SCALE)},
                "privacy": {"method": "predictive-padded", "k": k},
                "series": {"mode": "independent"},
            }
        )
        key = OwnerKey(f"benchmark of membership, padded {number}".encode())
        day = datetime.date(2026, 1, 1)
        work = Path(place) / "private" / "work"
        run = pipeline.Run(config, day, Store(Path(place)), key, crew, work, lambda *_: None)
        made = {name: Path(pipeline.execute(name, run)["path"]) for name in methods.data_steps(config)}
        groups = made[next(reversed(methods.data_steps(config)))] / "groups.parquet"
        names = pq.read_table(made["ingest"] / "items.parquet").column("item").to_pylist()
        coding = profiles.Coding.of(config)
        blocks = list(profiles.blocks(groups, coding.dtype))
    values = np.concatenate(
        [np.frombuffer(block.codes, coding.dtype).reshape(-1, len(names)) for block in blocks]
    )
    table = np.zeros((len(values), ratings.shape[1]), np.float32)
    table[:, [int(name) for name in names]] = SCALE[0] + values * config.privacy.rating_step
    return table


def likelihood_ratios(measured: Measured) -> np.ndarray:
    """Return releases × people × signals: log-likelihood of "in" less that of "out", by all other releases."""
    signals, inside = measured.signals, measured.inside
    scores = np.zeros_like(signals)
    for own in range(len(signals)):
        others = np.arange(len(signals)) != own
        x, member = signals[others], inside[others][:, :, None]
        sides = []
        for some in (member, ~member):
            count = np.maximum(some.sum(axis=0), 2)
            mean = (x * some).sum(axis=0) / count
            spread = np.sqrt((((x - mean) ** 2) * some).sum(axis=0) / (count - 1))
            sides.append((mean, spread))
        # One spread for both sides: two from thirty releases each are too uncertain ([Carlini2022], section VI).
        shared = np.maximum(np.sqrt((sides[0][1] ** 2 + sides[1][1] ** 2) / 2), 1e-9)
        scores[own] = norm.logpdf(signals[own], sides[0][0], shared) - norm.logpdf(
            signals[own], sides[1][0], shared
        )
    return scores


def figures(measured: Measured) -> dict[str, Any]:
    """Return area under the curve and share found at 1 % false alarms; the signal is chosen on half of the people."""
    scores = likelihood_ratios(measured)
    scores = np.concatenate([scores, scores.sum(axis=2, keepdims=True)], axis=2)
    names = (*measured.names, "all signals")
    learn, test = slice(0, None, 2), slice(1, None, 2)
    areas = [_area(scores[:, learn, s], measured.inside[:, learn]) for s in range(len(names))]
    best = int(np.argmax(areas))
    chosen, inside = scores[:, test, best], measured.inside[:, test]
    threshold = np.quantile(chosen[~inside], 1 - FALSE_ALARMS)
    by_name = {name: round(_area(scores[:, test, s], inside), 3) for s, name in enumerate(names)}
    return {
        "signal": names[best],
        "auc": round(_area(chosen, inside), 3),
        "found_at_1_percent": round(float((chosen[inside] > threshold).mean()), 4),
        "trials": int(chosen.size),
        "auc_by_signal": by_name,
    }


def _area(scores: np.ndarray, inside: np.ndarray) -> float:
    ranks = rankdata(scores.ravel())[inside.ravel()]
    members, others = int(inside.sum()), int((~inside).sum())
    return float((ranks.sum() - members * (members + 1) / 2) / (members * others))


def allowed(epsilon: float) -> dict[str, float]:
    """Return what epsilon allows for the worst person: by the Gaussian trade-off of its ρ, and by (ε, δ) alone."""
    mu = math.sqrt(2 * allowance(epsilon, DELTA).rho)
    return {
        "auc_gaussian": round(float(norm.cdf(mu / math.sqrt(2))), 3),
        "found_gaussian": round(float(norm.cdf(norm.ppf(FALSE_ALARMS) + mu)), 4),
        "found_epsilon": round(min(1.0, math.exp(epsilon) * FALSE_ALARMS + DELTA), 4),
    }


def main() -> int:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shadows", type=int, default=64)
    parser.add_argument("--padded", action="store_true", help="also padded releases with k = 5")
    parser.add_argument("--out", type=Path, default=results.DIRECTORY / "lira.json")
    asked = parser.parse_args()
    began, ratings = results.machine(), movielens_100k()
    draw = OWNER.rng("lira halves")
    halves = draw.random((asked.shadows, ratings.shape[0])) < 0.5
    targets = np.sort(draw.permutation(ratings.shape[0])[:TARGETS])
    rows = []
    for epsilon in EPSILONS:
        start = time.process_time()
        measured = synthetic(ratings, targets, halves, epsilon)
        nothing = int((measured.signals == 0).all(axis=(1, 2)).sum())
        row = {
            "release": "dp-synthetic",
            "epsilon": epsilon,
            "nothing_released": nothing,
            **figures(measured),
            **allowed(epsilon),
        }
        rows.append({**row, "cpu_seconds": round(time.process_time() - start)})
        print(rows[-1], flush=True)
    if asked.padded:
        start = time.process_time()
        row = {"release": "predictive-padded", "k": 5, **figures(padded(ratings, targets, halves, 5))}
        rows.append({**row, "cpu_seconds": round(time.process_time() - start)})
        print(rows[-1], flush=True)
    results.write(
        asked.out, {"shadows": asked.shadows, "people": TARGETS, "delta": DELTA, "rows": rows}, began
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
