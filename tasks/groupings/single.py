"""Put every user into a group of one, for methods that publish one record per user: no user is hidden among others."""

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.ratings import Ratings
from tasks.groupings import Inputs
from tasks.pipeline import StepContext


class Params(Settings):
    """Hold nothing: there are no settings."""


def params(config: ReleaseConfig) -> Params:
    """Pick this grouping's settings."""
    return Params()


def group(context: StepContext[Params], inputs: Inputs) -> np.ndarray:
    """Return one group per user."""
    return np.arange(Ratings(inputs.ratings).n_users)
