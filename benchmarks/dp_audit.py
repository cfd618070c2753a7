"""Audit method dp-synthetic as its gate does, right and with planted mistakes: `python -m benchmarks.dp_audit`.

For each epsilon: the lower bound that the check dp-audit shows for the mechanism as it is, and for the mechanism with
one mistake at a time (all of them at epsilon 3). Exits 1
where the right one is refused, a mistake is not found, or a positive control is dead.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks import real_data_directory, results
from checks.canaries.trials import CLAIMED, HALVED, bound_epsilon, read_evidence
from checks.stats import ERROR_SHARE
from tasks.data import noisy_statistics as files
from tasks.kernels import bounded_sums, noisy_statistics
from tasks.kernels.noisy_statistics import Settings
from tasks.kernels.privacy_accounting import allowance
from tasks.keys import OwnerKey
from tasks.shadow import canaries
from tasks.shadow.audited_mechanism import AuditedMechanism
from tasks.store import digest_of

DELTA = 1e-5
EPSILONS = (1.0, 3.0, 10.0)
ALL_AT = 3.0  # at the other values of epsilon only the first two are tried
SCALE = (1.0, 5.0)


def _in_kernel(name: str, value: object) -> Any:
    return mock.patch.object(noisy_statistics, name, value)


def _half_the_noise() -> Any:
    right = noisy_statistics.variance_for
    return _in_kernel("variance_for", lambda bound, rho: max(1, -(-right(bound, rho) // 4)))


def _without_noise(part: str) -> Callable[[], Any]:
    def plant() -> Any:
        sampler = noisy_statistics._Sampler
        right = sampler.noisy

        def noisy(self: Any, name: str, exact: np.ndarray, bound: int) -> np.ndarray:
            found: np.ndarray = right(self, name, exact, bound)
            return exact if name == part else found

        return mock.patch.object(sampler, "noisy", noisy)

    return plant


def _unclipped() -> Any:
    """Return a patch by which every pair of everybody counts in full."""
    right = bounded_sums._pairs
    return mock.patch.object(
        bounded_sums, "_pairs", lambda chosen, weight: right(chosen, np.full_like(weight, weight.max()))
    )


def _exact_order() -> Any:
    """Return a patch by which the noisy sums are published, and items are chosen in the order of the exact ones."""
    right = noisy_statistics._choose

    def choose(exact: np.ndarray, sampler: Any, wanted: int) -> tuple[np.ndarray, np.ndarray]:
        columns, counts = right(exact, sampler, len(exact))
        best = np.sort(np.argsort(-exact[columns], kind="stable")[:wanted])
        return columns[best], counts[best]

    return _in_kernel("_choose", choose)


def _without_threshold() -> Any:
    return _in_kernel("unseen_threshold", lambda table, probability: 0)


def _same_seed() -> Any:
    """Return a patch by which the noise does not depend on the data."""
    return mock.patch.object(
        files,
        "noise_key",
        lambda keys, settings, *data: keys.noise(digest_of(settings), *data[:-1]),
    )


MISTAKES: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "half of the noise": _half_the_noise,
    "pairs without noise": _without_noise("pairs"),
    "ratings without noise": _without_noise("ratings"),
    "choice without noise": _without_noise("choice"),
    "number of people without noise": _without_noise("users"),
    "an enormous user not limited": _unclipped,
    "items chosen in exact order": _exact_order,
    "no threshold for unseen items": _without_threshold,
    "seeds that do not depend on the data": _same_seed,
}


def audit(
    ratings: sp.csr_array, epsilon: float, mistake: str, out: Path, trials: int = canaries.TRIALS
) -> dict[str, Any]:
    """Return what the audit shows about the mechanism with this mistake."""
    one = allowance(epsilon, DELTA)
    settings = Settings(rho=one.rho, failure=one.failure, epsilon=epsilon, scale=SCALE)
    owner = OwnerKey(b"benchmark of the audit, no secret")
    began = time.process_time()
    with MISTAKES[mistake]():
        audited = AuditedMechanism.of(
            settings, lambda *data: files.noise_key(owner, {"epsilon": epsilon}, *data)
        )
        base = canaries.audit_base(audited, ratings, owner.rng)
        runs = canaries.write_trials(out, audited, base, SCALE, owner.rng, (epsilon, DELTA), trials)
    evidence = read_evidence(out)
    found, control = (
        bound_epsilon(evidence.trials[setting], evidence.parts, DELTA, ERROR_SHARE)
        for setting in (CLAIMED, HALVED)
    )
    return {
        "claimed": epsilon,
        "mistake": mistake,
        "shown": round(found.epsilon, 3),
        "without_assumptions": round(found.free, 3),
        "canary": found.shape,
        "by": found.by,
        "control": round(control.epsilon, 3),
        "trials": runs,
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def movielens_100k() -> sp.csr_array:
    """Return the ratings of MovieLens 100K, a row per person."""
    table = pd.read_csv(real_data_directory() / "ml-100k" / "u.data", sep="\t", header=None).to_numpy()
    user, item, rating = table[:, 0] - 1, table[:, 1] - 1, table[:, 2].astype(np.float32)
    return sp.csr_array((rating, (user, item)))


def _all(epsilons: list[float], scratch: Path) -> Iterator[dict[str, Any]]:
    ratings = movielens_100k()
    for epsilon in epsilons:
        for mistake in list(MISTAKES)[: None if epsilon == ALL_AT else 2]:
            row = audit(ratings, epsilon, mistake, scratch)
            print(
                f"claimed {epsilon:g}, {mistake}: at least {row['shown']:.2f} ({row['by']}, {row['canary']}); "
                f"control {row['control']:.2f}; {row['cpu_seconds']} CPU-s",
                flush=True,
            )
            yield row


def main() -> int:
    """Audit, print, store; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--out", type=Path, default=results.DIRECTORY / "dp-audit.json")
    asked = parser.parse_args()
    began = results.machine()
    with tempfile.TemporaryDirectory() as scratch:
        rows = list(_all(asked.epsilon, Path(scratch)))
    results.write(asked.out, {"delta": DELTA, "rows": rows}, began)
    wrong = [
        r
        for r in rows
        if (r["shown"] > r["claimed"]) == (r["mistake"] == "none") or r["control"] <= r["claimed"]
    ]
    for row in wrong:
        print(f"WRONG: {row}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
