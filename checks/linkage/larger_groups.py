"""Estimate from the data how large groups must be for little of a profile to be true of its members.

Groups at another k are not known without forming them. The estimate assumes the worst that a grouping of similar people
could do: around each of the worst groups, the k people whose items resemble the group's most stand together, and every
cell shows the mean of their ratings (a release shows predictions instead where few people rated, which are right less
often). More people bring more items, and each item was rated by a smaller part of them.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from checks.evidence.truth import Truth
from checks.stats import wilson

SIZES = (5, 10, 20, 50, 100, 200, 500)
FEWEST_GROUPS = 4  # that the people must suffice for: the release's and a shadow's
MOST_GROUPS = 50  # the worst: each is compared with everybody
ROWS = 65_536  # people compared at once


def sizes_to_try(k: int, users: int) -> list[int]:
    """Return the group sizes above k that this many people suffice for."""
    return [size for size in SIZES if size > k and users // size >= FEWEST_GROUPS]


def least_size(
    truth: Truth, members: Sequence[np.ndarray], sizes: Sequence[int], threshold: float
) -> int | None:
    """Return the smallest of these sizes from which on the upper bound of what is true of a member is at most the
    threshold around each of these groups (rows of their members); None: no size is enough."""
    worst = np.zeros(len(sizes))
    for own in members:
        nearest = _most_alike(truth, own, max(sizes, default=0))
        for at, size in enumerate(sizes):
            worst[at] = max(worst[at], wilson(*count_true(truth, nearest[:size]))[1])
    too_much = np.flatnonzero(worst > threshold)
    first = int(too_much[-1]) + 1 if len(too_much) else 0
    return sizes[first] if first < len(sizes) else None


def count_true(truth: Truth, people: np.ndarray) -> tuple[int, int]:
    """Return how many cells are true of a member, were these people one group, and cells × members."""
    rows = truth.ratings[people]
    items, cell = np.unique(rows.indices, return_inverse=True)
    mean = np.bincount(cell, weights=rows.data) / np.bincount(cell)
    true = np.abs(mean[cell] - rows.data) <= truth.half_level + 1e-4
    return int(true.sum()), len(items) * len(people)


def _most_alike(truth: Truth, own: np.ndarray, count: int) -> np.ndarray:
    """Return the people whose items resemble those of a group most, its members first; of equals, those with the fewest
    ratings, who bring the fewest other items."""
    ratings = truth.ratings
    rated = np.diff(ratings.indptr)
    weight = np.bincount(ratings[own].indices, minlength=ratings.shape[1]).astype(np.float32)
    alike = np.empty(ratings.shape[0], np.float32)
    for start in range(0, len(alike), ROWS):
        rows = ratings[start : start + ROWS]
        pattern = sp.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
        alike[start : start + ROWS] = pattern @ weight
    alike /= np.sqrt(np.maximum(rated, 1))
    alike[~truth.seen] = -1
    alike[own] = np.inf
    return np.lexsort((rated, -alike))[:count]
