"""Draw phantom raters: noise in the item factors that hides the leverage of single real raters.

A model is fitted on the people it describes. The factors of an item are a combination of its raters' factors, so an
attacker who holds the published predictions finds the groups whose direction agrees with a rare item's and names its
raters; and two made-up accounts suffice to read the opinion of the one real rater from the item's level
(docs/leaks-and-bars.md). In the last half step over items each item therefore has, beside its real raters, some
phantom raters:

- their tastes are drawn like real raters' (the same covariance of factors), once for all items;
- their ratings are the item's level plus noise as large as real people's deviations from the model, so that the sums
  from which factors are solved have noise worth as many raters;
- the noise in an item's level, the sum of its ratings, has a standard deviation of one width of the rating scale: the
  most that one person can change that sum by.

Noise that a rare item cannot carry is shrunk with its factors; an item with many raters hardly notices it.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Float32 = npt.NDArray[np.float32]

_LEAST_VARIANCE = 1e-9


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


def draw_ratings(
    levels: Float32, phantoms: int, error: float, level_noise: float, rng: np.random.Generator
) -> Float32:
    """Return what phantom raters give each item, less the mean of all ratings (items × phantoms).

    `error` is the standard deviation of a real rating from the model, `level_noise` that of the sum over an item's
    phantoms beyond its level.
    """
    noise = rng.standard_normal((len(levels), phantoms), np.float32) * np.float32(error)
    noise -= noise.mean(axis=1, keepdims=True)
    noise += rng.standard_normal((len(levels), 1), np.float32) * np.float32(level_noise / phantoms)
    return noise + levels[:, None]


def add_phantoms(part: sp.csr_array, ratings: Float32, items: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return a block of items × users with the phantoms' ratings as further columns; only of the marked items."""
    phantoms = np.where(items[:, None], ratings, 0)
    there = np.broadcast_to(items[:, None], phantoms.shape)
    row, column = np.nonzero(there)
    more = sp.csr_array((phantoms[there], (row, column)), shape=phantoms.shape)
    joined = sp.csr_array(sp.hstack([part, more], format="csr"))
    return joined
