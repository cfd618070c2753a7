"""Form groups of at least k similar users in every bin by bounded t-means ([Chang2009], section 4.2, Algorithm 1)."""

from pathlib import Path

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.similarity import Similarity
from tasks.groupings import Inputs
from tasks.groupings._bins import group_in_bins
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.kernels.group_tightening import tighten_groups
from tasks.pipeline import StepContext


class Params(Settings):
    """Hold how users are compared and the least size of a group."""

    similarity: Similarity
    iterations: int
    k: int


def params(config: ReleaseConfig) -> Params:
    """Pick this grouping's settings."""
    return Params(
        similarity=Similarity.of(config), iterations=config.clustering.iterations, k=config.privacy.k
    )


def group(context: StepContext[Params], inputs: Inputs) -> np.ndarray:
    """Cluster the bins in parallel."""
    return group_in_bins(
        context,
        inputs.bin_file,
        _cluster_bin,
        ratings=inputs.ratings,
        factors=inputs.model,
        params=context.params,
    )


def _cluster_bin(
    block: tuple[np.ndarray, np.random.Generator], *, ratings: Path, factors: Path, params: Params
) -> np.ndarray:
    users, rng = block
    count = len(users) // params.k
    if count <= 1:
        return np.zeros(len(users), np.int32)
    points = params.similarity.points(ratings, factors, users)
    labels, _ = bounded_tmeans(
        points,
        t=count,
        min_size=params.k,
        **params.similarity.measure,
        iterations=params.iterations,
        rng=rng,
    )
    return tighten_groups(points, labels, min_size=params.k)
