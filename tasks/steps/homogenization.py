"""Homogenization: the one record published of a group, or of a person alone, by the method (tasks/profilers)."""

from dataclasses import replace
from typing import Any

from pydantic import SerializeAsAny

from tasks import methods, profiles
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.pipeline import Job


class Params(Settings):
    """The settings of the method's profiler."""

    profiler: SerializeAsAny[Settings]


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(profiler=methods.profiler(config).params(config))


def run(job: Job) -> dict[str, Any]:
    """Make the profiles."""
    cells = methods.profiler(job.config).make(replace(job, params=job.params.profiler))
    return {"groups": sum(profiles.row_groups(job.out / "groups.parquet")), "cells": cells}
