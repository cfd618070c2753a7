"""Centers: bounded t-means on the sample gives √m virtual centres (paper section 4.2; Algorithm 1, line 3)."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.pipeline import Job
from tasks.ratings import Ratings
from tasks.similarity import Similarity


class Params(Settings):
    """How users are compared and how long centres may move."""

    similarity: Similarity
    iterations: int


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(similarity=Similarity.of(config), iterations=config.clustering.iterations)


def run(job: Job) -> dict[str, Any]:
    """Cluster the sample; the means of its clusters are the centres."""
    sample = job.inputs["sampling"] / "sample.npy"
    drawn = len(np.load(sample, mmap_mode="r"))
    count = min(math.isqrt(Ratings(job.ratings).n_users), drawn)
    block = (count, job.rng())
    [sizes] = job.engine.map(
        _find_centers,
        [block],
        ingest=job.ratings,
        padding=job.inputs["padding"],
        sample=sample,
        params=job.params,
        out=job.out / "centers.npy",
    )
    return {"centers": count, "smallest": min(sizes), "largest": max(sizes)}


def _find_centers(
    block: tuple[int, np.random.Generator],
    *,
    ingest: Path,
    padding: Path,
    sample: Path,
    params: Params,
    out: Path,
) -> list[int]:
    count, rng = block
    points = params.similarity.points(ingest, padding, np.load(sample))
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
    np.save(out, centers.held)
    return np.bincount(labels, minlength=count).tolist()
