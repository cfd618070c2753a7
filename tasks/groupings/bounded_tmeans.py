"""Bounded t-means in every bin: groups of at least k similar users (paper 000, section 4.2; Algorithm 1, line 5)."""

from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.groupings._bins import group_in_bins
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.kernels.tighten import tighten
from tasks.pipeline import Job
from tasks.similarity import Similarity


class Params(Settings):
    """How users are compared and the least size of a group."""

    similarity: Similarity
    iterations: int
    k: int


def params(config: ReleaseConfig) -> Params:
    """Pick this grouping's settings."""
    return Params(
        similarity=Similarity.of(config), iterations=config.clustering.iterations, k=config.privacy.k
    )


def group(job: Job) -> np.ndarray:
    """Cluster the bins in parallel."""
    return group_in_bins(
        job, _cluster_bin, ingest=job.ratings, padding=job.inputs["padding"], params=job.params
    )


def _cluster_bin(
    block: tuple[np.ndarray, np.random.Generator], *, ingest: Path, padding: Path, params: Params
) -> np.ndarray:
    users, rng = block
    count = len(users) // params.k
    if count <= 1:
        return np.zeros(len(users), np.int32)
    points = params.similarity.points(ingest, padding, users)
    labels, _ = bounded_tmeans(
        points,
        t=count,
        min_size=params.k,
        **params.similarity.measure,
        iterations=params.iterations,
        rng=rng,
    )
    return tighten(points, labels, min_size=params.k)
