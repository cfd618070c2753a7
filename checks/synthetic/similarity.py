"""Measure how near rows and people are: the share of (item, rating) pairs that both have, of all that either has.

A rating of a row counts as the nearest one that people can give. 1: the same items with the same ratings.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

AT_ONCE = 512  # people compared together: a dense block of 512 × rows


@dataclass(frozen=True)
class Pairs:
    """Hold records as sets of (item, rating) pairs: a sparse matrix of ones, `levels` columns for each item."""

    sets: sp.csr_array
    lengths: np.ndarray

    def take(self, rows: np.ndarray) -> "Pairs":
        """Return some of the records."""
        return Pairs(sp.csr_array(self.sets[rows]), self.lengths[rows])

    def __len__(self) -> int:
        return len(self.lengths)


def pairs_of(ratings: sp.csr_array, levels: np.ndarray) -> Pairs:
    """Return records of ratings as sets of pairs; `levels` are the ratings people give, ascending."""
    between = (levels[1:] + levels[:-1]) / 2
    level = np.searchsorted(between, ratings.data, side="right")
    width = len(levels)
    shape = (ratings.shape[0], ratings.shape[1] * width)
    ones = np.ones(ratings.nnz, np.float32)
    columns = ratings.indices.astype(np.int64) * width + level
    return Pairs(sp.csr_array((ones, columns, ratings.indptr), shape=shape), np.diff(ratings.indptr))


def nearest(some: Pairs, among: Pairs) -> np.ndarray:
    """Return, for each record of `some`, its largest similarity to a record of `among`."""
    best = np.zeros(len(some), np.float32)
    if not len(among):
        return best
    other = sp.csc_array(among.sets.T)
    for start in range(0, len(some), AT_ONCE):
        rows = slice(start, min(start + AT_ONCE, len(some)))
        common = sp.csr_array(some.sets[rows]) @ other
        best[rows] = _largest(common, some.lengths[rows], among.lengths)
    return best


def _largest(common: sp.csr_array, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the largest similarity of each row of a sparse matrix of common pairs."""
    counts = np.diff(common.indptr)
    best = np.zeros(common.shape[0], np.float32)
    some = np.flatnonzero(counts)
    if not len(some):
        return best
    either = np.repeat(own.astype(np.float32), counts) + other.astype(np.float32)[common.indices]
    either -= common.data
    best[some] = np.maximum.reduceat(common.data / either, common.indptr[some])
    return best
