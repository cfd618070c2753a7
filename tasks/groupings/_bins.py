"""Groups formed inside every bin on its own: the bins are independent, so they run side by side."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tasks.pipeline import Job


def group_in_bins(job: Job, function: Callable[..., np.ndarray], **common: Any) -> np.ndarray:
    """`function((users, rng), **common) -> labels` for the users of every bin; labels of all users."""
    bins = np.load(job.inputs["binning"] / "bins.npy")
    order = np.argsort(bins, kind="stable")
    names, starts = np.unique(bins[order], return_index=True)
    members = np.split(order, starts[1:])
    blocks = [(users, job.rng(int(name))) for name, users in zip(names, members, strict=True)]
    labels = np.empty(len(bins), np.int32)
    groups = 0
    found = job.engine.map(function, blocks, progress=job.progress, **common)
    for users, within in zip(members, found, strict=True):
        labels[users] = groups + within
        groups += int(within.max()) + 1
    return labels
