"""Form groups inside every bin on its own: bins are independent, so they run in parallel."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tasks.pipeline import StepContext


def group_in_bins(
    context: StepContext[Any], bin_file: Path, function: Callable[..., np.ndarray], **common: Any
) -> np.ndarray:
    """Call `function((users, rng), **common) -> labels` for the users of every bin; return the labels of all users."""
    bins = np.load(bin_file)
    order = np.argsort(bins, kind="stable")
    names, starts = np.unique(bins[order], return_index=True)
    members = np.split(order, starts[1:])
    blocks = [(users, context.rng(int(name))) for name, users in zip(names, members, strict=True)]
    labels = np.empty(len(bins), np.int32)
    groups = 0
    found = context.engine.map(function, blocks, progress=context.progress, **common)
    for users, within in zip(members, found, strict=True):
        labels[users] = groups + within
        groups += int(within.max()) + 1
    return labels
