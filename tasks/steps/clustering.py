"""Clustering: who shares a record with whom, at least k people or everybody alone, by the method (tasks/groupings)."""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import SerializeAsAny

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.pipeline import Job


class Params(Settings):
    """The settings of the method's grouping, and the least size of a group."""

    grouping: SerializeAsAny[Settings]
    least: int


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    grouping = methods.grouping(config)
    return Params(grouping=grouping.params(config), least=methods.least_size(config))


def run(job: Job) -> dict[str, Any]:
    """Form the groups, then number them in a keyed random order."""
    labels = methods.grouping(job.config).group(replace(job, params=job.params.grouping))
    groups = int(labels.max()) + 1
    # The order of creation would tell which groups are neighbours, and later which are new: shuffle it.
    labels = job.rng("numbering").permutation(groups).astype(np.int32)[labels]
    np.save(job.out / "labels.npy", labels)
    sizes = np.bincount(labels, minlength=groups)
    if sizes.min() < job.params.least:
        raise AssertionError(f"a group has {sizes.min()} members, fewer than {job.params.least}")
    return {"groups": groups, "smallest": int(sizes.min()), "largest": int(sizes.max())}
