"""Padding: predict every missing rating ([Chang2009], section 4.1). The model is stored, the padded matrix never is.

Where predictions must not reveal an attribute (`padding.neutral`), the users' factors are changed here: grouping and
profiles, which use nothing but the factors, follow.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.config import ReleaseConfig
from tasks.data.factors import FactorParams as Params
from tasks.data.factors import fit_factors
from tasks.data.ratings import Ratings
from tasks.pipeline import Job

RESULT = "factors"


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    ratings: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params.of(config)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Fit the predictor on the items that enough users rated, and write its factors."""
    return fit_factors(job, Ratings(job.inputs.ratings))
