"""Fit a robust low-rank model to a release, which predicts the values of cells that show no single person's rating.

Subspace iteration over blocks of groups. After a few rounds, cells far from the fit are taken as unknown
and filled from the fit, so that single true ratings neither bend the fit nor hide in it. Cells that are not
published are filled the same way. Nothing but the factors is held for the whole release. Groups that were not
fitted are computed from the items' factors (`Fit.solved`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from checks.evidence.release_view import ReleaseView
from checks.recovery.subspace import orthonormal, random_basis, strongest

Table = tuple[int, np.ndarray]  # first group of a block, and its ratings with NaN where there are none
Tables = Callable[[], Iterable[Table]]

ROUNDS = 14
TRUSTING_ROUNDS = 3
OVERSAMPLE = 4
CUT = 3.0 * 1.4826  # three standard deviations, from the median of the absolute errors
AT_REST = 0.05  # of the cut: a group's fitted values moved less than this (root mean square)
SAMPLE_STRIDE = 29
CHUNK = 50_000


def hold_tables(tables: Iterable[Table]) -> Tables:
    """Decode once: a fit passes over its tables many times, and a sample of a release is small enough."""
    blocks = list(tables)
    return lambda: blocks


def read_tables(release: ReleaseView) -> Iterator[Table]:
    """Yield the blocks of a release as tables."""
    return ((block.start, block.table()) for block in release.blocks())


def hide_cells(tables: Tables, groups: np.ndarray, items: np.ndarray) -> Iterator[Table]:
    """Yield a release without these cells (by group): the rest shows what could be guessed about them anyway."""
    for start, table in tables():
        part = slice(*np.searchsorted(groups, [start, start + len(table)]))
        rest = table.copy()
        rest[groups[part] - start, items[part]] = np.nan
        yield start, rest


@dataclass(frozen=True)
class Fit:
    """Hold a fit: value ≈ mean[item] + scores[group] · basis[item], with an orthonormal basis. Cells further than `cut`
    from it were taken as unknown."""

    mean: np.ndarray
    scores: np.ndarray
    basis: np.ndarray
    cut: float = np.inf

    def rows(self, start: int, count: int) -> np.ndarray:
        """Return the fitted values of consecutive groups, all items."""
        fitted = self.scores[start : start + count] @ self.basis.T
        fitted += self.mean
        return fitted

    def solved(self, table: np.ndarray) -> np.ndarray:
        """Compute the fitted values of groups that need not have been fitted: their scores are found as in the rounds
        of the fit, with fixed item factors, until they no longer move."""
        fitted = np.tile(self.mean, (len(table), 1))
        if not self.basis.shape[1]:
            return fitted
        # Without gaps one round finds what trusting rounds would all find.
        trusting = TRUSTING_ROUNDS + 1 if np.isnan(table).any() else 1
        unused = np.zeros(table.shape[1])
        scores = np.zeros((len(table), self.basis.shape[1]), np.float32)
        for turn in range(ROUNDS):
            cut = np.inf if turn < trusting else self.cut
            _fill(table, self.mean, np.float32(cut), fitted, unused)
            before, scores = scores, fitted @ self.basis
            np.matmul(scores, self.basis.T, out=fitted)
            fitted += self.mean
            moved = np.sqrt(((scores - before) ** 2).sum(axis=1).max(initial=0) / table.shape[1])
            if turn >= trusting and moved <= AT_REST * self.cut:
                break
        return fitted

    def cells(self, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return the fitted values of some cells."""
        values = self.mean[items].copy()
        for start in range(0, len(groups), CHUNK):  # the gathered factors of all cells at once could be large
            part = slice(start, start + CHUNK)
            values[part] += np.einsum("ij,ij->i", self.scores[groups[part]], self.basis[items[part]])
        return values


def item_means(tables: Tables, shape: tuple[int, int]) -> Fit:
    """Return the simplest fit: every item's mean over the groups that have it; the overall mean if no group has it."""
    total, count = np.zeros(shape[1]), np.zeros(shape[1])
    for _, table in tables():
        there = ~np.isnan(table)
        total += np.where(there, table, 0).sum(axis=0, dtype=np.float64)
        count += there.sum(axis=0)
    overall = total.sum() / max(1.0, count.sum())
    mean = np.where(count > 0, total / np.maximum(count, 1), overall).astype(np.float32)
    return Fit(mean, np.zeros((shape[0], 0), np.float32), np.zeros((shape[1], 0), np.float32))


def robust_fit(tables: Tables, shape: tuple[int, int], rank: int, step: float) -> Fit:
    """Fit `rank` directions beside the item means; `step` is the rounding, below which no error means
    anything."""
    fit = item_means(tables, shape)
    if rank == 0:
        return fit
    width = min(rank + OVERSAMPLE, *shape)
    random = np.random.default_rng(rank)  # only a starting subspace; the result does not depend on it
    basis = random_basis(random, shape[1], width).astype(np.float32)
    cut = np.inf
    for turn in range(ROUNDS):
        fit, turned, errors = _round(tables, shape, fit, basis, rank, cut, trusting=turn < TRUSTING_ROUNDS)
        if turn >= TRUSTING_ROUNDS:
            typical = float(np.median(errors)) if len(errors) else np.inf  # no residuals to set the cut by
            cut = max(CUT * typical, 0.6 * step)
        if turn < ROUNDS - 1:
            basis = orthonormal(turned).astype(np.float32)
    return replace(fit, cut=cut)


def _round(
    tables: Tables,
    shape: tuple[int, int],
    fit: Fit,
    basis: np.ndarray,
    rank: int,
    cut: float,
    *,
    trusting: bool,
) -> tuple[Fit, np.ndarray, np.ndarray]:
    """Pass over the release once: fill, project, and turn the subspace towards the filled matrix. While every cell is
    trusted, the fit so far is used for gaps alone, and no errors are measured."""
    scores = np.zeros((shape[0], basis.shape[1]), dtype=np.float32)
    turned = np.zeros((shape[1], basis.shape[1]))
    sums = np.zeros(shape[1])
    errors = []
    for start, table in tables():
        used = not trusting or np.isnan(table).any()
        filled = fit.rows(start, len(table)) if used else np.zeros_like(table)
        if not trusting:
            errors.append(np.abs(table.ravel()[::SAMPLE_STRIDE] - filled.ravel()[::SAMPLE_STRIDE]))
        _fill(table, fit.mean, np.float32(cut), filled, sums)
        projected = filled @ basis
        scores[start : start + len(table)] = projected
        turned += filled.T @ projected
    main = strongest(scores.T @ scores, rank)[1].astype(np.float32)
    moved = (sums / shape[0]).astype(np.float32)
    # The mean moves by what the fit does not already explain of it.
    moved -= (scores.mean(axis=0) @ main) @ (basis @ main).T
    better = Fit(fit.mean + moved, scores @ main, basis @ main)
    sample = np.concatenate([np.zeros(0, np.float32), *errors])
    return better, turned, sample[~np.isnan(sample)]


@njit(cache=True, nogil=True)
def _fill(table, mean, cut, fitted, sums):  # type: ignore[no-untyped-def]
    """Turn fitted values into the filled block less the means: what is published where it is near the fit."""
    for row in range(len(table)):
        own, filled = table[row], fitted[row]
        for item in range(len(own)):
            near = abs(own[item] - filled[item]) <= cut  # False where nothing is published
            filled[item] = (own[item] if near else filled[item]) - mean[item]
            sums[item] += filled[item]
