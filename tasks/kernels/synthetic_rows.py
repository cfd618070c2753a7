"""Draw synthetic rows of ratings from noisy statistics: post-processing, which discloses nothing further.

Which items a row has follows a Gaussian copula: a latent normal vector with a correlation matrix that gives the noisy
frequencies of pairs; the row has the items whose latent value exceeds their threshold by most, as many as a length
drawn from the noisy lengths says. Pairs are cleaned before that: eigenvalues below the edge of the noise's spectrum are
noise, and those above it are too large by a known amount ([Benaych2011]). Ratings follow a second copula: the item's
noisy mean, an effect of the row and a residual, mapped to the noisy distribution of rating levels.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, ndtri

from tasks.kernels.bounded_sums import LEVELS, Limits, row_weight
from tasks.kernels.noisy_statistics import Statistics

EDGE = 2.0  # of the spectrum of a symmetric matrix of independent noise, in σ√n (Wigner's semicircle)
MOST_FREQUENT = 0.9
LARGEST_CORRELATION, SMALLEST_CORRELATION = 0.97, -0.6
MOST_COMMON_VARIANCE = 0.98  # of a latent value; the rest is its own
SERIES_TERMS, NEWTON_STEPS, LEAST_SLOPE = 5, 6, 0.3
LEAST_EIGENVALUE = 1.0  # of a correlation matrix: smaller ones explain less than one item each


@dataclass(frozen=True)
class RowModel:
    """Hold what rows are drawn from."""

    loadings: np.ndarray  # (items, factors) of the latent values
    own: np.ndarray  # standard deviation of each latent value's own part
    thresholds: np.ndarray
    length_shares: np.ndarray  # of the buckets
    edges: np.ndarray  # first length of each bucket, and one more than the longest
    item_levels: np.ndarray  # rating of each item, in deviations of a rating from the mean
    row_spread: float  # of the effect of a row, in the same unit
    own_spread: float
    level_shares: np.ndarray  # of the rating levels −V … V

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> "RowModel":
        """Return a model from its arrays."""
        return cls(
            **{name: float(value) if value.ndim == 0 else value for name, value in arrays.items()}  # type: ignore[arg-type]
        )


def fit(found: Statistics) -> RowModel:
    """Return the model of rows that follows from noisy statistics."""
    edges = np.append(found.limits.edges, len(found.columns) + 1)
    lengths = on_simplex(found.lengths.astype(np.float64), found.users)
    people = _weighted_people(lengths, edges, found.limits)
    frequency = np.diag(found.pairs) / (found.limits.pairs * people)
    frequency = np.clip(frequency, 1 / people, MOST_FREQUENT)
    noise = np.sqrt(found.noise["pairs"].variance) / (found.limits.pairs * people)
    covariance = found.pairs / (found.limits.pairs * people) - np.outer(frequency, frequency)
    np.fill_diagonal(covariance, frequency * (1 - frequency))
    thresholds = ndtri(1 - frequency)
    correlation = latent_correlation(denoised(covariance, noise), thresholds)
    loadings, own = factors(correlation)
    return RowModel(
        loadings.astype(np.float32),
        own.astype(np.float32),
        thresholds.astype(np.float32),
        _possible_lengths(lengths),
        edges,
        *_rating_model(found, lengths, edges),
    )


def draw(model: RowModel, count: int, rng: np.random.Generator) -> tuple[sp.csr_array, np.ndarray]:
    """Return rows with 1 for each of their items, and the rating of each stored cell as a level −V … V."""
    items, rank = model.loadings.shape
    bucket = rng.choice(len(model.length_shares), p=model.length_shares, size=count)
    first, width = model.edges[bucket], model.edges[bucket + 1] - model.edges[bucket]
    length = np.maximum(first + (rng.random(count) * width).astype(np.int64), 1)
    latent = rng.standard_normal((count, rank), dtype=np.float32) @ model.loadings.T
    latent += rng.standard_normal((count, items), dtype=np.float32) * model.own
    latent -= model.thresholds
    least = np.take_along_axis(np.sort(latent, axis=1), (items - length)[:, None], axis=1)
    row, column = np.nonzero(latent >= least)
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
    effect = rng.normal(0, model.row_spread, count)[row] + rng.normal(0, model.own_spread, len(row))
    levels = _quantile(ndtr(model.item_levels[column] + effect), model.level_shares)
    cells = sp.csr_array((np.ones(len(row), np.int8), column.astype(np.int32), ends), shape=(count, items))
    return cells, levels


def codes_of(levels: np.ndarray, scale: tuple[float, float], step: float) -> np.ndarray:
    """Return rating levels as codes that count steps from the lowest rating."""
    low, high = scale
    values = (low + high) / 2 + levels / LEVELS * (high - low) / 2
    return np.rint((values - low) / step).astype(np.int64)


def on_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest numbers ≥ 0 with this sum: clipping alone would add to every empty bucket."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(descending > excess)[-1])
    return cast(np.ndarray, np.maximum(values - excess[last], 0))


def denoised(covariance: np.ndarray, noise: float) -> np.ndarray:
    """Return a symmetric matrix without the noise of standard deviation `noise` in its cells.

    Noise alone has eigenvalues up to 2σ√n. A true eigenvalue λ above σ√n appears as y = λ + σ²n/λ, along a direction
    that has turned; √(y² − 4σ²n) is the best multiple of that direction in squared error ([Benaych2011], [Gavish2017]).
    """
    values, directions = np.linalg.eigh(covariance)
    edge = EDGE * noise * np.sqrt(len(covariance))
    kept = values > edge
    shrunk = np.sqrt(values[kept] ** 2 - edge**2)
    return cast(np.ndarray, (directions[:, kept] * shrunk) @ directions[:, kept].T)


def latent_correlation(covariance: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the correlation of latent normal values whose excesses over thresholds have this covariance.

    The covariance is φ(s)φ(t) Σ r^(k+1) He_k(s) He_k(t)/(k + 1)! (the tetrachoric series, [Pearson1900]); Newton's
    method inverts its first terms for all pairs at once.
    """
    density = np.exp(-(thresholds**2) / 2) / np.sqrt(2 * np.pi)
    wanted = covariance / np.outer(density, density)
    hermite = [np.ones_like(thresholds), thresholds]
    for k in range(1, SERIES_TERMS - 1):
        hermite.append(thresholds * hermite[k] - k * hermite[k - 1])
    terms = []
    factorial = 1.0
    for k, one in enumerate(hermite):
        factorial *= k + 1
        terms.append(np.outer(one, one) / factorial)
    found = np.clip(wanted, SMALLEST_CORRELATION, LARGEST_CORRELATION)
    for _ in range(NEWTON_STEPS):
        value, slope, power = np.zeros_like(found), np.zeros_like(found), np.ones_like(found)
        for k, term in enumerate(terms):
            slope += (k + 1) * term * power
            power = power * found
            value += term * power
        found -= (value - wanted) / np.maximum(slope, LEAST_SLOPE)
        np.clip(found, SMALLEST_CORRELATION, LARGEST_CORRELATION, out=found)
    np.fill_diagonal(found, 1)
    return found


def factors(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return loadings L and deviations d with LLᵀ + diag(d²) near `correlation`, 1 on the diagonal and semidefinite."""
    values, directions = np.linalg.eigh(correlation)
    kept = values > min(LEAST_EIGENVALUE, values[-1] / 2)
    loadings = directions[:, kept] * np.sqrt(values[kept])
    common = np.einsum("ij,ij->i", loadings, loadings)
    loadings *= np.sqrt(np.minimum(1, MOST_COMMON_VARIANCE / common))[:, None]
    return loadings, np.sqrt(1 - np.minimum(common, MOST_COMMON_VARIANCE))


def _weighted_people(lengths: np.ndarray, edges: np.ndarray, limits: Limits) -> float:
    """Return Σ g(n)/S over all people, with the mean weight of each bucket of lengths."""
    every = np.arange(edges[-1])
    weight = np.where(every > 0, row_weight(every, limits.pairs, limits.row_weight) / limits.pairs, 0.0)
    total = np.add.reduceat(weight, edges[:-1])
    return max(float(lengths @ (total / np.diff(edges))), 1.0)


def _possible_lengths(lengths: np.ndarray) -> np.ndarray:
    """Return the share of each bucket, without people who have none of the chosen items: no row is empty."""
    kept = lengths.copy()
    kept[0] = 0
    if kept.sum() == 0:
        kept[-1] = 1
    return kept / kept.sum()


def _rating_model(
    found: Statistics, lengths: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, float, float, np.ndarray]:
    """Return items' levels, the spreads of rows and residuals (all in deviations of a rating), the shares of levels."""
    grid = np.arange(-LEVELS, LEVELS + 1)
    shares = _without_noise(found.levels, found.noise["levels"].variance)
    mean = float(shares @ grid)
    variance = max(float(shares @ (grid - mean) ** 2), 0.25)
    weight = np.maximum(np.diag(found.pairs) / found.limits.pairs, 1.0)
    sums = found.ratings / found.limits.ratings
    noise = found.noise["ratings"].variance / found.limits.ratings**2
    middle = sums.sum() / weight.sum()
    excess = sums - middle * weight
    between = float(np.clip(np.sum(excess**2 - noise) / np.sum(weight**2), 0, 0.5 * variance))
    # The best linear estimate of an item's level from its noisy sum.
    items = excess * between * weight / (between * weight**2 + noise + 1e-12)
    people = _without_noise(found.means, found.noise["means"].variance)
    row = float(people @ (grid - people @ grid) ** 2)
    typical = max(float(lengths @ ((edges[:-1] + edges[1:]) / 2)) / max(lengths.sum(), 1.0), 1.0)
    of_rows = float(np.clip(row - (variance - between) / typical, 0, 0.5 * variance))
    own = max(variance - between - of_rows, 0.1 * variance)
    deviation = np.sqrt(np.var(items) + of_rows + own)
    return items / deviation, float(np.sqrt(of_rows) / deviation), float(np.sqrt(own) / deviation), shares


def _without_noise(noisy: np.ndarray, variance: float) -> np.ndarray:
    """Return shares from noisy counts: those within three deviations of zero are taken for zero."""
    kept = np.where(noisy > 3 * np.sqrt(variance), noisy, 0).astype(np.float64)
    if kept.sum() == 0:
        kept = np.ones(len(noisy))
    return kept / kept.sum()


def _quantile(uniform: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the level at each quantile of a distribution over −V … V."""
    possible = np.flatnonzero(shares)
    ends = np.cumsum(shares[possible])[:-1]
    return possible[np.searchsorted(ends, uniform, side="right")] - LEVELS
