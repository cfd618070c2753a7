"""Sampling: draw the users on whom the centres are found (paper section 4.2, step 2.1)."""

import math
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.pipeline import Job
from tasks.ratings import Ratings

USERS_PER_CENTER = 16
LEAST_USERS = 2_000


class Params(Settings):
    """How many users to draw; None: a number that follows the data."""

    sample: int | None


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(sample=config.clustering.sample)


def run(job: Job) -> dict[str, Any]:
    """Draw users without replacement, in a way nobody without the secret can repeat."""
    users = Ratings(job.ratings).n_users
    wanted = job.params.sample or max(LEAST_USERS, USERS_PER_CENTER * math.isqrt(users))
    size = min(users, wanted)
    sample = np.sort(job.rng().choice(users, size=size, replace=False)).astype(np.int64)
    np.save(job.out / "sample.npy", sample)
    return {"sampled": size, "of": users}
