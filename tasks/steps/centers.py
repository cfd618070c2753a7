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
from tasks.steps.padding import open_model


class Params(Settings):
    """How distances are measured and how long centres may move."""

    metric: str
    max_diff: float
    iterations: int
    keep_observed: bool


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    low, high = config.source.scale
    return Params(
        metric=config.clustering.metric,
        max_diff=high - low,
        iterations=config.clustering.iterations,
        keep_observed=config.padding.keep_observed,
    )


def run(job: Job) -> dict[str, Any]:
    """Cluster the sample; the means of its clusters are the centres."""
    sample = job.inputs["sampling"] / "sample.npy"
    drawn = len(np.load(sample, mmap_mode="r"))
    count = min(math.isqrt(Ratings(job.inputs["ingest"]).n_users), drawn)
    block = (count, job.rng())
    [sizes] = job.engine.map(
        _find_centers,
        [block],
        ingest=job.inputs["ingest"],
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
    points = padded_rows(ingest, padding, np.load(sample), keep_observed=params.keep_observed)
    # Half the mean size: balanced enough for the bins to come, free enough to follow the data.
    least = max(1, len(points) // (2 * count))
    labels, centers = bounded_tmeans(
        points,
        t=count,
        min_size=least,
        metric=params.metric,
        max_diff=params.max_diff,
        iterations=params.iterations,
        rng=rng,
    )
    np.save(out, centers)
    return np.bincount(labels, minlength=count).tolist()


def padded_rows(ingest: Path, padding: Path, users: np.ndarray, *, keep_observed: bool) -> np.ndarray:
    """Padded rating vectors of some users: predictions, observed ratings in place where they are kept."""
    model = open_model(padding)
    if not keep_observed:
        return model.rows(users)
    return model.padded_rows(users, Ratings(ingest).by_user.take(users))
