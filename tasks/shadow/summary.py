"""Compute histograms of ratings before and after padding ([Chang2009], Table 2)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tasks.data.ratings import Ratings
from tasks.kernels.padded import LowRank

CELLS_PER_BLOCK = 4_000_000  # of padded rows in memory at once
HISTOGRAM_USERS = 1_000


def rating_histogram(
    ratings: Ratings, model: LowRank, scale: tuple[float, float], rng: Callable[..., np.random.Generator]
) -> dict[str, Any]:
    """Return the shares of rating levels among observed and among padded ratings; padded ones of a sample of users."""
    users = ratings.n_users
    edges = histogram_edges(*scale)
    sample = np.sort(rng("histogram").choice(users, min(users, HISTOGRAM_USERS), replace=False))
    after = np.zeros(len(edges) - 1, np.int64)
    for block in np.array_split(sample, -(-len(sample) * ratings.n_items // CELLS_PER_BLOCK)):
        padded = model.padded_rows(block, ratings.by_user.take(block))
        after += np.histogram(np.clip(padded, *scale), edges)[0]
    observed = np.histogram(ratings.by_user.values, edges)[0]
    empty = users * ratings.n_items - len(ratings.by_user.values)
    return {
        "edges": edges.tolist(),
        "observed_share": (observed / (observed.sum() + empty)).tolist(),
        "null_share": empty / (observed.sum() + empty),
        "padded_share": (after / after.sum()).tolist(),
    }


def histogram_edges(low: float, high: float) -> np.ndarray:
    """Return bins around whole ratings where the scale is short, ten equal bins where it is long."""
    if high - low <= 10:
        between = np.arange(np.ceil(low), np.floor(high)) + 0.5
        return np.concatenate([[low], between, [high]])
    return np.linspace(low, high, 11)
