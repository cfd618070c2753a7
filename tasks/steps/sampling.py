"""Sampling: draw the users on whom the centres are computed ([Chang2009], section 4.2, step 2.1)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.ratings import Ratings
from tasks.pipeline import Job

RESULT = "sample"
USERS_PER_CENTER = 16
LEAST_USERS = 2_000


class Params(Settings):
    """Hold how many users to draw; None: a number that follows the data."""

    sample: int | None


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    ratings: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(sample=config.clustering.sample)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Draw users without replacement, in a way that cannot be repeated without the secret."""
    users = Ratings(job.inputs.ratings).n_users
    wanted = job.params.sample or max(LEAST_USERS, USERS_PER_CENTER * math.isqrt(users))
    size = min(users, wanted)
    sample = np.sort(job.rng().choice(users, size=size, replace=False)).astype(np.int64)
    np.save(job.out / "sample.npy", sample)
    return {"sampled": size, "of": users}
