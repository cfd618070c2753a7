"""Homogenization: make the one record that is published of a group or of a user, by the method (tasks/profilers)."""

from importlib import import_module
from typing import Any

from pydantic import SerializeAsAny

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.pipeline import Job
from tasks.profilers import Inputs

RESULT = "profiles"


class Params(Settings):
    """Hold the module of the method's profiler with its settings."""

    module: str
    profiler: SerializeAsAny[Settings]


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    profiler = methods.profiler(config)
    return Params(module=profiler.__name__, profiler=profiler.params(config))


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Make the profiles."""
    cells = import_module(job.params.module).make(job.context(job.params.profiler), job.inputs)
    return {"groups": sum(profiles.row_groups(job.out / "groups.parquet")), "cells": cells}
