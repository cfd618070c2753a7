"""Solve items for their deviation from a public prior, weighted by how much stands behind the prior.

Earlier cohorts are behind the prior, the cohort's own ratings are not. Both are weighted as information adds up in a
Kalman filter. With A = Σ p pᵀ over an item's raters in the cohort and Σ = the raters' mean of p pᵀ, the deviation d of
the item's factors from the prior solves

    (w A + κ Σ + λ (n + κ + PRIOR) 1) d = w (Σ p · residual + noise),      w = n / (n + m).

- κ is what earlier cohorts are worth, in raters of this item without noise (`worth_of_prior`). How many people rated an
  item earlier is not published: it is estimated by the share of the cohort that did and by the sizes of the earlier
  cohorts, which are public.
- m phantom raters (kernels/phantom_raters.py) give the noise. It is as large as that of m raters, so the sums of n real
  raters are worth w n of them. Phantoms do not pull: an item with a good prior stays there.

Every rating has a noise variance of RATING_VARIANCE, levels that are not known spread by LEVEL_VARIANCE (scale of 4).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from tasks.kernels.als import BIAS_PRIOR, PRIOR, IntArray
from tasks.kernels.phantom_raters import level_noise
from tasks.kernels.public_prior import Prior

Float32 = npt.NDArray[np.float32]

SPAN = 4.0  # of the ratings that the variances are meant for
RATING_VARIANCE = 0.8
LEVEL_VARIANCE = 0.15
# Items with a prior deviate from it from 0.4 · level_only_below raters on, with 2 · level_only_below further phantoms
# where they are fewer than that. With the defaults these are 140 phantoms from 20 raters on: an attacker who knows the
# ratings of the 19 others and the taste p of the last one can distinguish like from dislike (±1) by a distance of
# 2 √(pᵀΣ⁻¹p / (140 · 0.8)) standard deviations, 0.53 on average over raters (pᵀΣ⁻¹p = rank 8). That is an area of
# Φ(0.53 / √2) = 0.65, the limit of the check `sybil`.
FEWEST_SHARE = 0.4
FURTHER_PHANTOMS = 2
_START_FADES = (
    50.0  # raters behind a prior: with so many, the random start of an item's factors is half as large
)


@dataclass(frozen=True)
class Worth:
    """Hold what the prior of each item is worth: raters without noise behind its factors, precision of its level."""

    factors: npt.NDArray[np.float64]
    levels: npt.NDArray[np.float64]


def phantoms_of(counts: npt.NDArray[np.floating], phantoms: int, level_only_below: int) -> np.ndarray:
    """Return the number of phantom raters of items with a prior, by their number of raters."""
    return phantoms + np.where(counts < level_only_below, float(FURTHER_PHANTOMS * level_only_below), 0.0)


def deviates(counts: npt.NDArray[np.floating | np.integer], level_only_below: int) -> npt.NDArray[np.bool_]:
    """Return which items with a prior have enough raters for factors that deviate from it."""
    return counts >= FEWEST_SHARE * level_only_below


def rating_variance(span: float) -> float:
    """Return the variance of a rating about the model, for a scale of this width."""
    return RATING_VARIANCE * (span / SPAN) ** 2


def worth_of_prior(
    prior: Prior,
    counts: npt.NDArray[np.integer],
    people: int,
    *,
    phantoms: int,
    level_only_below: int,
    span: float,
) -> Worth:
    """Return what the prior is worth for the items of a cohort of `people`, rated by `counts` of them."""
    share = (counts + 0.5) / (people + 5.0)
    factors = np.zeros(len(counts))
    levels = np.full(len(counts), 1 / (LEVEL_VARIANCE * (span / SPAN) ** 2))
    for earlier in prior.cohorts:
        raters = share * earlier
        own = raters**2 / (raters + phantoms_of(raters, phantoms, level_only_below))
        factors += np.where(deviates(raters, level_only_below), own, 0.0)
        levels += raters / (rating_variance(span) + level_noise(raters, span) ** 2 / raters)
    return Worth(np.where(prior.known, factors, 0.0), np.where(prior.known, levels, 0.0))


def balance(prior: Prior, users: Float32, ratings_of_users: IntArray, counts: IntArray) -> np.ndarray:
    """Return by what to multiply each direction of the prior, so that the penalties of people and of items are equal.

    `users` are the cohort's factors, given the prior. The penalties are those of all people so far, with the tastes of
    this cohort.
    """
    times = (sum(prior.cohorts) + len(users)) / max(1, len(users))
    people = times * ((ratings_of_users + PRIOR) @ users.astype(np.float64) ** 2)
    items = (times * counts + PRIOR) @ prior.factors.astype(np.float64) ** 2
    usable = (people > 0) & (items > 0)
    return np.where(usable, (np.where(usable, people, 1) / np.where(usable, items, 1)) ** 0.25, 1.0)


def fading_start(start: Float32, worth: np.ndarray) -> Float32:
    """Return the random factors that are added to the prior in the beginning: the less, the more is known."""
    return (start / (1 + worth / _START_FADES)[:, None]).astype(np.float32)


@dataclass(frozen=True)
class Sums:
    """Hold sums over the raters of each item: of [p, 1] [p, 1]ᵀ and of [p, 1] times what the prior leaves over."""

    gram: npt.NDArray[np.float64]  # (items, rank + 1, rank + 1)
    left: npt.NDArray[np.float64]  # (items, rank + 1)


def sum_up(indptr: IntArray, indices: IntArray, left: Float32, features: Float32, offsets: Float32) -> Sums:
    """Return the sums of a block of items (CSR); `left` are ratings less what the prior says of them."""
    rows, width = len(indptr) - 1, features.shape[1] + 1
    gram, sides = np.zeros((rows, width, width)), np.zeros((rows, width))
    _sum_up(
        np.ascontiguousarray(indptr, np.int64),
        np.ascontiguousarray(indices, np.int32),
        np.ascontiguousarray(left, np.float32),
        np.ascontiguousarray(features, np.float32),
        np.ascontiguousarray(offsets, np.float32),
        gram,
        sides,
    )
    return Sums(gram, sides)


def deviation(
    sums: Sums, worth: Worth, moments: np.ndarray, regularization: float, variance: float
) -> np.ndarray:
    """Return how factors and level of each item deviate from the prior (items, rank + 1), without any noise.

    `moments` are the raters' mean of p pᵀ, `variance` is that of a rating.
    """
    rank = len(moments)
    system = sums.gram.copy()
    counts = sums.gram[:, rank, rank]
    system[:, :rank, :rank] += _penalty(counts, worth, moments, regularization)
    system[:, rank, rank] += regularization * BIAS_PRIOR + variance * worth.levels
    return np.linalg.solve(system, sums.left[:, :, None])[:, :, 0]


def hidden_deviation(
    sums: Sums,
    worth: Worth,
    moments: np.ndarray,
    regularization: float,
    variance: float,
    noise: np.ndarray,
    phantoms: np.ndarray,
    moving: npt.NDArray[np.bool_],
) -> np.ndarray:
    """Return the deviation with noise in the sums of the factors; factors of items that are not `moving` stay.

    `noise` (items, rank) is the sum over each item's `phantoms`. The level is the mean of what the factors leave over,
    shrunk by `regularization` · BIAS_PRIOR alone: it is hidden afterwards.
    """
    rank = len(moments)
    counts, tastes = sums.gram[:, rank, rank], sums.gram[:, :rank, rank]
    level = deviation(sums, worth, moments, regularization, variance)[:, rank]
    weight = counts / np.maximum(counts + phantoms, 1)
    system = weight[:, None, None] * sums.gram[:, :rank, :rank] + _penalty(
        counts, worth, moments, regularization
    )
    sides = weight[:, None] * (sums.left[:, :rank] - level[:, None] * tastes + noise)
    out = np.zeros((len(counts), rank + 1))
    out[:, :rank] = np.where(moving[:, None], np.linalg.solve(system, sides[:, :, None])[:, :, 0], 0.0)
    over = sums.left[:, rank] - np.einsum("if,if->i", tastes, out[:, :rank])
    out[:, rank] = over / (counts + regularization * BIAS_PRIOR)
    return out


def _penalty(counts: np.ndarray, worth: Worth, moments: np.ndarray, regularization: float) -> np.ndarray:
    ridge = regularization * (counts + worth.factors + PRIOR)
    return worth.factors[:, None, None] * moments + ridge[:, None, None] * np.eye(len(moments))


@njit(cache=True, nogil=True)
def _sum_up(indptr, indices, left, features, offsets, gram, sides):  # type: ignore[no-untyped-def]
    rank = features.shape[1]
    for row in range(len(indptr) - 1):
        own, side = gram[row], sides[row]
        for at in range(indptr[row], indptr[row + 1]):
            taste = features[indices[at]]
            rest = left[at] - offsets[indices[at]]
            for a in range(rank):
                for b in range(a + 1):
                    own[a, b] += taste[a] * taste[b]
                own[rank, a] += taste[a]
                side[a] += taste[a] * rest
            own[rank, rank] += 1.0
            side[rank] += rest
        for a in range(rank + 1):
            for b in range(a):
                own[b, a] = own[a, b]
