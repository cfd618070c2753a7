"""Sum integer contributions of people, each bounded so that the sensitivity of every sum is known exactly.

A person is a row of the rating matrix. Adding or removing a row changes each sum by that row's contribution, whose
norm is at most the bound given here; the lemmas in docs/proofs/dp-synthetic.md prove the bounds and
tests/tasks/kernels/test_bounded_sums.py tries them on random neighbouring data. Sums of integers do not depend on how
the rows are cut into blocks.

    part      contribution of a person with n items                                  squared norm at most
    choice    ⌊√(S²/n)⌋ to each of their items                                        S²
    lengths   1 to the bucket of n, the number of chosen items                        1
    pairs     g(n) = ⌊S·min(1, c/n)⌋ to each pair i ≤ j of their chosen items         max g(n)²·n(n + 1)/2
    means     1 to the bucket of their mean rating                                    1
    levels    ⌊S·(share of their chosen items with this rating level)⌋ to each level  S²
    ratings   g(n)·v to each of their chosen items, v the centred rating, |v| ≤ V     max g(n)²·n·V²
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

LEVELS = 8  # V: a rating is one of the integers −V … V, the middle of the scale is 0
CHOICE_RESOLUTION = 256  # S of the choice of items: people with more than S² items contribute nothing to it
ROWS_AT_ONCE = 2048  # of dense rows: with weights up to 2^12 their float32 sums are exact, below 2^24
LARGEST_RESOLUTION = 2**12


@dataclass(frozen=True)
class Limits:
    """Hold what bounds a person's contribution to the sums over chosen items: public settings, not data."""

    row_weight: int  # c
    scale: tuple[float, float]
    pairs: int  # S of the pairs
    ratings: int  # S of the ratings
    levels: int  # S of the rating levels
    edges: tuple[int, ...]  # first length of each bucket of lengths, from 0 on

    def __post_init__(self) -> None:
        if not 1 <= self.pairs <= LARGEST_RESOLUTION:
            raise ValueError(f"the resolution {self.pairs} is not between 1 and {LARGEST_RESOLUTION}")


@dataclass(frozen=True)
class Sums:
    """Hold the exact sums over chosen items: secret, only to be used with noise."""

    pairs: np.ndarray  # symmetric, (items, items)
    ratings: np.ndarray
    lengths: np.ndarray
    means: np.ndarray
    levels: np.ndarray

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(*(getattr(self, name) + getattr(other, name) for name in vars(self)))


def choice_weight(count: np.ndarray) -> np.ndarray:
    """Return ⌊√(S²/n)⌋: then n squares of it are at most S²."""
    exact = np.sqrt((CHOICE_RESOLUTION**2 // np.maximum(count, 1)).astype(np.float64))
    return np.floor(exact).astype(np.int64)


def row_weight(count: np.ndarray, resolution: int, limit: int) -> np.ndarray:
    """Return g(n) = ⌊S·min(1, c/n)⌋."""
    return np.where(count <= limit, resolution, resolution * limit // np.maximum(count, 1)).astype(np.int64)


def pairs_bound(items: int, resolution: int, limit: int) -> int:
    """Return the largest squared norm of a person's contribution to the pairs i ≤ j."""
    count = np.arange(1, items + 1, dtype=np.int64)
    return int(np.max(row_weight(count, resolution, limit) ** 2 * (count * (count + 1) // 2)))


def ratings_bound(items: int, resolution: int, limit: int) -> int:
    """Return the largest squared norm of a person's contribution to the sums of ratings."""
    count = np.arange(1, items + 1, dtype=np.int64)
    return int(np.max(row_weight(count, resolution, limit) ** 2 * count)) * LEVELS**2


@lru_cache(maxsize=16)
def length_edges(items: int, exact: int = 12, buckets: int = 24) -> tuple[int, ...]:
    """Return the first length of each bucket: short rows each have their own, longer ones share growing buckets."""
    grown = np.geomspace(exact, max(items, exact + 1), buckets).round().astype(int)
    return tuple(int(one) for one in np.unique([*range(exact), *grown]) if one <= items)


def choice_sums(rows: sp.csr_array) -> np.ndarray:
    """Return every item's sum for the choice of items."""
    rows = _distinct(rows)
    count = np.diff(rows.indptr)
    weights = np.repeat(choice_weight(count), count)
    # Sums of integers below 2^53 are exact in float64.
    return np.bincount(rows.indices, weights=weights, minlength=rows.shape[1]).astype(np.int64)


def sums(rows: sp.csr_array, columns: np.ndarray, limits: Limits) -> Sums:
    """Return all sums over the chosen items, `columns`."""
    chosen = sp.csr_array(_distinct(rows)[:, columns])
    chosen.sort_indices()
    count = np.diff(chosen.indptr)
    values = centred(chosen.data, limits.scale)
    weight = np.repeat(row_weight(count, limits.ratings, limits.row_weight), count)
    ratings = np.bincount(chosen.indices, weights=weight * values, minlength=len(columns))
    bucket = np.searchsorted(limits.edges, count, side="right") - 1
    return Sums(
        _pairs(chosen, row_weight(count, limits.pairs, limits.row_weight)),
        ratings.astype(np.int64),
        np.bincount(bucket, minlength=len(limits.edges)).astype(np.int64),
        *_rating_levels(values, count, limits.levels),
    )


def centred(ratings: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    """Return ratings as integers −V … V, whatever they are: the middle of the scale is 0, its ends are ±V."""
    low, high = scale
    part = (np.nan_to_num(ratings.astype(np.float64)) - (low + high) / 2) / ((high - low) / 2)
    return np.rint(np.clip(part, -1, 1) * LEVELS).astype(np.int64)


def _pairs(chosen: sp.csr_array, weight: np.ndarray) -> np.ndarray:
    """Return Σ g · x xᵀ. Dense float32 products are exact here, and far faster than sparse ones of long rows."""
    total = np.zeros((chosen.shape[1], chosen.shape[1]), np.int64)
    for start in range(0, chosen.shape[0], ROWS_AT_ONCE):
        some = chosen[start : start + ROWS_AT_ONCE]
        some = sp.csr_array((np.ones(some.nnz, np.float32), some.indices, some.indptr), shape=some.shape)
        dense = some.toarray()
        weighted = dense * weight[start : start + ROWS_AT_ONCE, None].astype(np.float32)
        total += (dense.T @ weighted).astype(np.int64)
    return total


def _rating_levels(values: np.ndarray, count: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many people have each mean level, and the weighted sum of each level."""
    width = 2 * LEVELS + 1
    row = np.repeat(np.arange(len(count)), count)
    total = np.bincount(row, weights=values, minlength=len(count))
    rated = count > 0
    mean = np.rint(total[rated] / count[rated]).astype(np.int64)
    by_level = np.bincount(row * width + values + LEVELS, minlength=len(count) * width).reshape(-1, width)
    part = resolution * by_level[rated] // count[rated, None]
    return np.bincount(mean + LEVELS, minlength=width).astype(np.int64), part.sum(axis=0).astype(np.int64)


def _distinct(rows: sp.csr_array) -> sp.csr_array:
    """Return rows in which nobody has an item twice: a repeated one would count twice."""
    if rows.has_canonical_format:
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    return rows
