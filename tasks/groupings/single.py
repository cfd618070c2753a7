"""Everybody alone: methods that publish single people's records. Nobody is hidden among others by it."""

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.pipeline import Job
from tasks.ratings import Ratings


class Params(Settings):
    """Nothing to choose."""


def params(config: ReleaseConfig) -> Params:
    """Pick this grouping's settings."""
    return Params()


def group(job: Job) -> np.ndarray:
    """One group per person."""
    return np.arange(Ratings(job.ratings).n_users)
