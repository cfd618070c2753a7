"""Score the cells of a release by its main directions, whitened or plain.

Published predictions are low rank, and an item's factors are combinations of its raters' factors. So a group whose
direction agrees with an item's was probably among its raters. The singular vectors of the release give both; setting
all singular values to 1 ("whitened") removes what is merely common taste and leaves who stands out, and scaling each
item's direction to length 1 makes rare items comparable with popular ones. What the first directions leave over of a
cell scores it too: ratings that were not predicted at all are not low rank.
"""

from dataclasses import dataclass

import numpy as np

from checks.recovery.low_rank_fit import Tables
from checks.recovery.subspace import iterate, random_basis, strongest

RANKS = (4, 8, 12, 16, 18, 24, 40)
LEFT_OVER_RANKS = (8, 24)
ROUNDS = 12
OVERSAMPLE = 8
SMALLEST = 1e-6  # of the largest singular value: smaller ones are rounding errors


@dataclass(frozen=True)
class Score:
    """Describe one way to score cells: the number of directions, whitened or not, either sign or agreement only; or by
    what these directions leave over."""

    rank: int
    whitened: bool
    signed: bool
    left_over: bool = False

    def __str__(self) -> str:
        if self.left_over:
            return f"left over by rank {self.rank}"
        kind = "whitened" if self.whitened else "plain"
        return f"{kind} rank {self.rank}{', agreement' if self.signed else ''}"


@dataclass(frozen=True)
class Directions:
    """Hold the main directions of a release: item means, an orthonormal basis over items and its singular values."""

    mean: np.ndarray
    basis: np.ndarray  # items × directions
    strength: np.ndarray

    def scores(self) -> list[Score]:
        """Return all ways to score cells with these directions."""
        ranks, left_over = (
            sorted({min(rank, len(self.strength)) for rank in some}) for some in (RANKS, LEFT_OVER_RANKS)
        )
        by_direction = [
            Score(rank, white, sign) for rank in ranks for white in (True, False) for sign in (True, False)
        ]
        return by_direction + [Score(rank, False, False, left_over=True) for rank in left_over]

    def groups(self, table: np.ndarray) -> np.ndarray:
        """Return the coordinates of groups (left singular vectors), from their published values."""
        return self.coordinates(centred(table, self.mean))

    def coordinates(self, around: np.ndarray) -> np.ndarray:
        """Return the coordinates of groups from their centred values."""
        return (around @ self.basis) / self.strength

    def items(self, score: Score) -> np.ndarray:
        """Return what a group's coordinates are multiplied with, for every item: its direction, of length 1, or, to see
        what is left over, of its own length."""
        if score.left_over:
            return (self.basis[:, : score.rank] * self.strength[: score.rank]).astype(np.float32)
        weight = np.ones(score.rank) if score.whitened else self.strength[: score.rank]
        right = self.basis[:, : score.rank] * weight
        length = np.linalg.norm(right, axis=1, keepdims=True)
        return (right / np.maximum(length, 1e-12)).astype(np.float32)


def centred(table: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return published values less the items' means and each group's own level; 0 where nothing is published."""
    rest = table - mean
    gaps = np.isnan(rest)
    if not gaps.any():
        return rest - rest.mean(axis=1, keepdims=True)
    there = np.maximum((~gaps).sum(axis=1, keepdims=True), 1)
    rest[gaps] = 0
    return np.where(gaps, 0, rest - rest.sum(axis=1, keepdims=True) / there)


def find_directions(tables: Tables, shape: tuple[int, int]) -> Directions:
    """Find the main directions of a release given as blocks of groups, by subspace iteration.

    The centred values are held: each of a dozen passes needs them, and a sample of a release is small enough.
    """
    total, count = np.zeros(shape[1]), np.zeros(shape[1])
    for _, table in tables():
        total += np.nansum(table, axis=0, dtype=np.float64)
        count += (~np.isnan(table)).sum(axis=0)
    mean = (total / np.maximum(count, 1)).astype(np.float32)
    blocks = [centred(table, mean) for _, table in tables()]
    width = max(1, min(max(RANKS) + OVERSAMPLE, min(shape) - 1))

    def multiply(basis: np.ndarray) -> np.ndarray:
        product = np.zeros((shape[1], basis.shape[1]))
        for block in blocks:
            product += block.T @ (block @ basis)
        return product

    start = random_basis(np.random.default_rng(0), shape[1], width).astype(np.float32)
    basis = iterate(lambda now: multiply(now.astype(np.float32)), start, ROUNDS).astype(np.float32)
    values, vectors = strongest(basis.T @ multiply(basis), max(1, min(max(RANKS), min(shape) // 2)))
    strength = np.sqrt(np.maximum(values, 0))
    real = strength > SMALLEST * max(float(strength[0]), 1e-12)
    if not real.any():
        real[0] = True
        strength[0] = 1.0
    return Directions(mean, (basis @ vectors[:, real]).astype(np.float32), strength[real])
