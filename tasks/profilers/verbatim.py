"""Records as they are: everybody's own ratings, such as the steps before have left them (papers 002 and 004).

Nothing is disguised here. What protects people is what was left out (suppression) or put in (obfuscation).
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.padded import encode
from tasks.pipeline import Job
from tasks.profilers._parts import members_of, write_parts
from tasks.ratings import Ratings

RATINGS_PER_BLOCK = 2_000_000


class Params(Settings):
    """How ratings are written."""

    scale: tuple[float, float]
    rating_step: float


def params(config: ReleaseConfig) -> Params:
    """Pick this profiler's settings."""
    return Params(scale=config.source.scale, rating_step=config.privacy.rating_step)


def make(job: Job) -> int:
    """Write blocks of people in parallel."""
    ratings = Ratings(job.ratings)
    return write_parts(
        job,
        lambda order, starts: _blocks(ratings.by_user.counts()[order]),
        _write_block,
        ratings=job.ratings,
        params=job.params,
    )


def _blocks(rated: np.ndarray) -> list[tuple[int, int]]:
    """Consecutive records that fit into memory together; they follow the data, not the workers."""
    edges = np.flatnonzero(np.diff(np.cumsum(rated) // RATINGS_PER_BLOCK)) + 1
    return list(pairwise([0, *edges.tolist(), len(rated)]))


def _write_block(block: tuple[tuple[int, int], Path], *, ratings: Path, members: Path, params: Params) -> int:
    (start, _), path = block
    users, sizes = members_of(members, block[0])
    rated = Ratings(ratings).by_user.take(users)
    codes = encode(rated.data, params.scale, params.rating_step)
    profiles.write_sparse(
        path, start, sizes, sp.csr_array((codes, rated.indices, rated.indptr), shape=rated.shape)
    )
    return rated.nnz
