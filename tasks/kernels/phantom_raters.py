"""Draw phantom raters: noise in the item factors that hides the leverage of single real raters.

A model is fitted on the people it describes. The factors of an item are a combination of its raters' factors, so an
attacker who holds the published predictions finds the groups whose direction agrees with a rare item's and names its
raters; and two made-up accounts suffice to read the opinion of the one real rater from the item's level
(docs/leaks-and-bars.md). In the last half step over items each item therefore has, beside its real raters, some
phantom raters:

- their tastes are drawn like real raters' (the same covariance of factors), once for all items;
- their ratings are the item's level plus noise as large as real people's deviations from the model, so that the sums
  from which factors are solved have noise worth as many raters. Over an item's phantoms the noise adds up to zero.

The level itself is hidden afterwards (`hide_levels`): the sum of an item's ratings gets noise with a standard deviation
of twice the width of the rating scale, twice the most that one person can change that sum by. From 20 raters on it
falls with the square root of their number: to find one real opinion among them, an attacker would have to plant, or to
know, all others. Noise that a rare item cannot carry is shrunk with its factors; an item with many raters hardly
notices it.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Float32 = npt.NDArray[np.float32]

LEVEL_NOISE = 2.0  # widths of the rating scale, in the sum of an item's ratings
FULL_NOISE_UP_TO = 20  # raters; with four times as many the noise in the sum is half of that
_LEAST_VARIANCE = 1e-9
_RATING_DEVIATION = 4.0  # a rating deviates from the model by about a fourth of the scale
# Items are divided by their number of raters into bins, within which expected levels are wrong by as much.
_MOST_BINS = 8
_ITEMS_PER_BIN = 50
_LEAST_EXPECTED = 0.01  # squared error of an expected level, at least: it is never taken for certain


def rater_covariance(factors: Float32, counts: npt.NDArray[np.integer], block: int = 65_536) -> np.ndarray:
    """Return the second moments of the users' factors over ratings: a user counts as often as they rated."""
    total = np.zeros((factors.shape[1], factors.shape[1]))
    for start in range(0, len(factors), block):
        part = np.asarray(factors[start : start + block], np.float64)
        total += part.T @ (part * counts[start : start + block, None])
    return total / max(1, int(counts.sum()))


def draw_tastes(covariance: np.ndarray, phantoms: int, rng: np.random.Generator) -> Float32:
    """Return the factors of phantom raters (phantoms × rank)."""
    rank = len(covariance)
    root = np.linalg.cholesky(covariance + _LEAST_VARIANCE * np.eye(rank))
    return (rng.standard_normal((phantoms, rank)) @ root.T).astype(np.float32)


def draw_ratings(levels: Float32, phantoms: int, error: float, rng: np.random.Generator) -> Float32:
    """Return what phantom raters give each item, less the mean of all ratings (items × phantoms).

    `error` is the standard deviation of a real rating from the model.
    """
    noise = rng.standard_normal((len(levels), phantoms), np.float32) * np.float32(error)
    noise -= noise.mean(axis=1, keepdims=True) if phantoms else np.float32(0)
    return noise + levels[:, None]


def hide_levels(
    levels: Float32,
    counts: npt.NDArray[np.integer],
    prior: float,
    span: float,
    rng: np.random.Generator,
    expected: npt.NDArray[np.floating] | None = None,
    precision: npt.NDArray[np.floating] | None = None,
    variance_of_ratings: float = 0.0,
) -> Float32:
    """Return item levels with noise in the sum of each item's ratings, shrunk as such noise demands.

    `levels` are sums over an item's ratings divided by their number plus `prior`. They are shrunk towards what items
    with as many raters have on average (rare items are rated lower than popular ones), with the variance of the noise
    in a mean over that of the levels: the best linear estimate of a level from its noisy sum. Where public releases
    give a level to expect (`expected`; NaN: none), `levels` deviate from it instead, and are shrunk towards it: by its
    `precision` (one over its variance) where that is given, else by how far items with as many raters deviate.
    """
    noise = level_noise(counts, span)
    usual = _usual_levels(levels.astype(np.float64), counts, prior)
    variance: float | np.ndarray = _variance(levels - usual, counts)
    if expected is not None:
        public = ~np.isnan(expected)
        usual = np.where(public, expected, usual)
        variance = np.full(len(levels), variance)
        if precision is None:
            variance[public] = _variance_by_count((levels - usual)[public], counts[public], prior, span)
        else:
            variance[public] = 1 / precision[public]
    apart = levels - usual
    sums = apart * (counts + prior) + noise * rng.standard_normal(len(levels))
    weights = counts + prior + noise**2 / (np.maximum(counts, 1) * variance)
    if expected is not None and precision is not None:
        weights[public] += variance_of_ratings * precision[public] - prior
    return (usual + sums / weights).astype(np.float32)


def level_noise(counts: npt.NDArray[np.integer | np.floating], span: float) -> np.ndarray:
    """Return the standard deviation of the noise in the sum of an item's ratings."""
    noise: np.ndarray = LEVEL_NOISE * span * np.sqrt(FULL_NOISE_UP_TO / np.maximum(counts, FULL_NOISE_UP_TO))
    return noise


def _variance(apart: np.ndarray, counts: np.ndarray) -> float:
    """Return the mean square of the levels' deviations over ratings."""
    return max(float(counts / max(1, int(counts.sum())) @ apart**2), _LEAST_VARIANCE)


def _variance_by_count(apart: np.ndarray, counts: np.ndarray, prior: float, span: float) -> np.ndarray:
    """Return by how much true levels deviate from what was expected, for items with about as many raters each.

    The fewer raters an item has, the less was known of it before, too. What single ratings contribute to the squared
    deviation of their mean is taken off.
    """
    raters = np.maximum(counts, 1)
    squares = (apart * (counts + prior) / raters) ** 2 - (span / _RATING_DEVIATION) ** 2 / raters
    variance = np.zeros(len(apart))
    bins = max(1, min(_MOST_BINS, len(apart) // _ITEMS_PER_BIN))
    for part in np.array_split(np.argsort(counts, kind="stable"), bins):
        if len(part):
            variance[part] = max(float(np.average(squares[part], weights=raters[part])), _LEAST_EXPECTED)
    return variance


def _usual_levels(levels: np.ndarray, counts: np.ndarray, prior: float) -> np.ndarray:
    """Return the level that items with as many raters have: a line over the logarithm of their number.

    Levels are shrunk by `prior`; undone here, so that the line is not bent towards zero where raters are few.
    """
    means = levels * (counts + prior) / np.maximum(counts, 1)
    weight = counts / (counts + prior)
    at = np.column_stack([np.ones(len(counts)), np.log1p(counts)])
    line = np.linalg.lstsq(at * np.sqrt(weight)[:, None], means * np.sqrt(weight), rcond=None)[0]
    return at @ line


def add_phantoms(part: sp.csr_array, ratings: Float32, items: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return a block of items × users with the phantoms' ratings as further columns; only of the marked items."""
    phantoms = np.where(items[:, None], ratings, 0)
    there = np.broadcast_to(items[:, None], phantoms.shape)
    row, column = np.nonzero(there)
    more = sp.csr_array((phantoms[there], (row, column)), shape=phantoms.shape)
    return sp.csr_array(sp.hstack([part, more], format="csr"))
