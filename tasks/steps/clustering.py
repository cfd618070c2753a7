"""Clustering: form the groups that share a record, of at least k users or of one, by the method (tasks/groupings)."""

from importlib import import_module
from typing import Any

import numpy as np
from pydantic import SerializeAsAny

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.groupings import Inputs
from tasks.pipeline import Job

RESULT = "groups"


class Params(Settings):
    """Hold the module of the method's grouping with its settings, and the least size of a group."""

    module: str
    grouping: SerializeAsAny[Settings]
    least_users: int


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    grouping = methods.grouping(config)
    return Params(
        module=grouping.__name__,
        grouping=grouping.params(config),
        least_users=methods.least_size(config),
    )


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Form the groups, then number them in a keyed random order."""
    labels = import_module(job.params.module).group(job.context(job.params.grouping), job.inputs)
    groups = int(labels.max()) + 1
    # The order of creation would disclose which groups are neighbours, and later which are new: shuffle it.
    labels = job.rng("numbering").permutation(groups).astype(np.int32)[labels]
    np.save(job.out / "labels.npy", labels)
    sizes = np.bincount(labels, minlength=groups)
    if sizes.min() < job.params.least_users:
        raise AssertionError(f"a group has {sizes.min()} members, fewer than {job.params.least_users}")
    return {"groups": groups, "smallest": int(sizes.min()), "largest": int(sizes.max())}
