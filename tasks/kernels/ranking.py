"""Measure the quality of a list of recommendations, and the similarity of two rankings."""

import math

import numpy as np
import scipy.sparse as sp
from scipy.stats import kendalltau


def top_items(scores: np.ndarray, known: sp.csr_array, count: int) -> np.ndarray:
    """Return the `count` best items of each row, best first, without known ones; at most as many as there are items."""
    left = np.array(scores, np.float32)
    left[np.repeat(np.arange(known.shape[0]), np.diff(known.indptr)), known.indices] = -np.inf
    count = min(count, left.shape[1])
    best = np.argpartition(-left, count - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(left, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1)


def hits(items: np.ndarray, relevant: sp.csr_array) -> np.ndarray:
    """Return whether each recommended item is relevant to its row's user (a stored cell of `relevant`)."""
    width = relevant.shape[1]
    row = np.repeat(np.arange(relevant.shape[0]), np.diff(relevant.indptr))
    return np.isin(np.arange(len(items))[:, None] * width + items, row * width + relevant.indices)


def ndcg(hit: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """Return the normalised discounted cumulative gain of each row: Σ hit/log₂(position + 1) over the best possible
    sum.

    `relevant` counts each user's relevant items, at least one.
    """
    discount = 1 / np.log2(np.arange(2, hit.shape[1] + 2))
    best = np.cumsum(discount)[np.minimum(relevant, hit.shape[1]) - 1]
    return hit @ discount / best


def recall(hit: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """Return the share of each user's relevant items that is in the list."""
    return hit.sum(axis=1) / relevant


def kendall_tau(one: np.ndarray, other: np.ndarray) -> float | None:
    """Return Kendall's τ-b between two rankings by value: 1 the same order, −1 the opposite; None where one has no
    order.
    """
    found = float(kendalltau(one, other).statistic)
    return round(found, 6) if math.isfinite(found) else None  # the last bits of a full agreement are not 1
