"""Centers: compute √m virtual centres by bounded t-means on the sample ([Chang2009], section 4.2, Algorithm 1)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.ratings import Ratings
from tasks.data.similarity import Similarity
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.pipeline import Job

RESULT = "centers"


class Params(Settings):
    """Hold how users are compared and how many iterations centres may move."""

    similarity: Similarity
    iterations: int


@dataclass(frozen=True)
class Inputs:
    """Hold the directories this step reads."""

    ratings: Path
    factors: Path
    sample: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(similarity=Similarity.of(config), iterations=config.clustering.iterations)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Cluster the sample; the means of its clusters are the centres."""
    sample = job.inputs.sample / "sample.npy"
    drawn = len(np.load(sample, mmap_mode="r"))
    count = min(math.isqrt(Ratings(job.inputs.ratings).n_users), drawn)
    block = (count, job.rng())
    [sizes] = job.engine.map(
        _find_centers,
        [block],
        ratings=job.inputs.ratings,
        factors=job.inputs.factors,
        sample=sample,
        params=job.params,
        out=job.out / "centers.npy",
    )
    return {"centers": count, "smallest": min(sizes), "largest": max(sizes)}


def _find_centers(
    block: tuple[int, np.random.Generator],
    *,
    ratings: Path,
    factors: Path,
    sample: Path,
    params: Params,
    out: Path,
) -> list[int]:
    count, rng = block
    points = params.similarity.points(ratings, factors, np.load(sample))
    # Half the mean size: balanced enough for the bins to come, free enough to follow the data.
    least = max(1, len(points) // (2 * count))
    labels, centers = bounded_tmeans(
        points,
        t=count,
        min_size=least,
        **params.similarity.measure,
        iterations=params.iterations,
        rng=rng,
    )
    np.save(out, centers.array)
    return np.bincount(labels, minlength=count).tolist()
