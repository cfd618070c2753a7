"""Publish every user's ratings unchanged, as the steps before left them ([Frankowski2006], [RFPP]).

Nothing is disguised here. The protection is what was left out (suppression) or added (obfuscation).
"""

from pathlib import Path

import scipy.sparse as sp

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.ratings import Ratings
from tasks.kernels.padded import encode
from tasks.pipeline import StepContext
from tasks.profilers import Inputs
from tasks.profilers._parts import equal_ranges, members_of, write_parts

RATINGS_PER_BLOCK = 2_000_000


class Params(Settings):
    """Hold how ratings are written."""

    scale: tuple[float, float]
    rating_step: float


def params(config: ReleaseConfig) -> Params:
    """Pick this profiler's settings."""
    return Params(scale=config.source.scale, rating_step=config.privacy.rating_step)


def make(context: StepContext[Params], inputs: Inputs) -> int:
    """Write blocks of users in parallel."""
    ratings = Ratings(inputs.ratings)
    return write_parts(
        context,
        inputs.label_file,
        lambda order, starts: equal_ranges(ratings.by_user.counts()[order] / RATINGS_PER_BLOCK),
        _write_block,
        ratings=ratings,
        params=context.params,
    )


def _write_block(
    block: tuple[tuple[int, int], Path], *, ratings: Ratings, members: Path, params: Params
) -> int:
    (start, _), path = block
    users, sizes = members_of(members, block[0])
    rated = ratings.by_user.take(users)
    codes = encode(rated.data, params.scale, params.rating_step)
    profiles.write_sparse(
        path, start, sizes, sp.csr_array((codes, rated.indices, rated.indptr), shape=rated.shape)
    )
    return rated.nnz
