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
    """Make the profiles in parts and join them."""
    cells = methods.profiler(job.config).make(replace(job, params=job.params.profiler))
    parts = sorted(job.out.glob("part-*.arrow"))
    joined = job.out / "groups.parquet"
    profiles.join(parts, joined, lambda done: job.progress(len(parts) + done, 2 * len(parts)))
    return {"groups": sum(profiles.row_groups(joined)), "cells": sum(cells)}
