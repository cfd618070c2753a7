"""Statistics: measure the ratings with noise; no later step of method dp-synthetic reads them.

The mechanism is tasks/kernels/noisy_statistics.py, its proof docs/proofs/dp-synthetic.md. Sums are exact integers, made
block by block on the workers; noise is added to the totals in this process. The key of the noise depends on the
owner's secret, release, snapshot, settings and the digest of the ratings: the same noise under different data, or under
another variance, could be subtracted.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.config.budget import Budget
from tasks.config.synthesis import Synthesis
from tasks.data import noisy_statistics as files
from tasks.data.ratings import Ratings, write_ids
from tasks.errors import UsageError
from tasks.kernels import bounded_sums as bounded
from tasks.kernels.noisy_statistics import NothingChosenError, measure
from tasks.kernels.noisy_statistics import Settings as Mechanism
from tasks.kernels.privacy_accounting import allowance
from tasks.pipeline import Job
from tasks.store import digest_of, files_below, write_json

RESULT = "statistics"
BLOCKS = 16  # sums over pairs are large, so there are few blocks
LEAST_RATINGS = 500_000


class Params(Settings):
    """Hold the budget and the settings of the mechanism."""

    budget: Budget
    synthesis: Synthesis
    scale: tuple[float, float]

    def mechanism(self) -> Mechanism:
        """Return the settings of the mechanism for one release."""
        one = allowance(self.budget.epsilon, self.budget.delta, self.budget.releases)
        return Mechanism(
            rho=one.rho,
            failure=one.failure,
            epsilon=self.budget.epsilon,
            scale=self.scale,
            items=self.synthesis.items,
            row_weight=self.synthesis.row_weight,
            choice_share=self.synthesis.choice_share,
            totals_share=self.synthesis.totals_share,
            ratings_share=self.synthesis.ratings_share,
        )


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    ratings: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    # The configuration refuses the method without a budget; other methods never run this step.
    budget = config.privacy.budget or Budget(epsilon=1.0)
    return Params(budget=budget, synthesis=config.synthesis, scale=config.source.scale)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Measure, and write the noisy statistics with what they spent."""
    settings = job.params.model_dump(mode="json")
    key = files.noise_key(job, settings, _digest(job.inputs.ratings))
    data = _Blocks(job)
    try:
        found = measure(data, job.params.mechanism(), key.words)
    except NothingChosenError:
        raise UsageError(
            "fewer than two items were rated by so many people that they stand out of the noise",
            where="[privacy.budget]",
            remedy="raise epsilon, let fewer releases share the budget, raise synthesis.choice_share, or release more "
            "people's ratings",
        ) from None
    ids = pa.array(Ratings(job.inputs.ratings).item_ids(), pa.string())
    write_ids(job.out, "item", ids.take(pa.array(found.columns)))
    files.write(job.out / files.STATISTICS, found)
    spent = found.spent(job.params.budget.delta)
    write_json(job.out / "spent.json", spent)
    # Only noisy numbers, so that logs and Airflow's database hold no exact ones.
    return {"items": len(found.columns), "users": found.users, "epsilon": round(spent["epsilon"], 4)}


class _Blocks:
    """Represent the data by exact sums that the workers make of blocks of people."""

    def __init__(self, job: Job[Params, Inputs]) -> None:
        self.job = job
        side = Ratings(job.inputs.ratings).by_user
        self.users, self.items = side.rows, side.columns
        self.blocks = side.blocks(max(LEAST_RATINGS, int(side.indptr[-1]) // BLOCKS))

    def choice_sums(self) -> np.ndarray:
        """Return every item's sum for the choice of items."""
        found = self.job.engine.map(_choice_sums, self.blocks, ratings=self.job.inputs.ratings)
        return reduce(add, found, np.zeros(self.items, np.int64))

    def sums(self, columns: np.ndarray, limits: bounded.Limits) -> bounded.Sums:
        """Return all sums over the chosen items; those of blocks go through files, one after another."""
        try:
            parts = self.job.engine.map(
                _sums,
                list(enumerate(self.blocks)),
                progress=self.job.progress,
                ratings=self.job.inputs.ratings,
                columns=columns,
                limits=limits,
                out=self.job.out,
            )
            return reduce(add, (files.read_sums(part) for part in parts))
        finally:
            for part in self.job.out.glob(".sums-*.npz"):
                part.unlink()  # exact sums


def _choice_sums(block: tuple[int, int], *, ratings: Path) -> np.ndarray:
    return bounded.choice_sums(Ratings(ratings).by_user.block(*block))


def _sums(
    block: tuple[int, tuple[int, int]],
    *,
    ratings: Path,
    columns: np.ndarray,
    limits: bounded.Limits,
    out: Path,
) -> Path:
    number, rows = block
    path = out / f".sums-{number:05d}.npz"
    files.write_sums(path, bounded.sums(Ratings(ratings).by_user.block(*rows), columns, limits))
    return path


def _digest(ratings: Path) -> str:
    """Return the digest of everything the statistics are made of."""
    of_items = pq.read_table(ratings / "items.parquet").column("item").to_pylist()
    return digest_of({"ratings": files_below(ratings / "by_user"), "items": of_items})
