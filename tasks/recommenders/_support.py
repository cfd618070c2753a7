"""Learn from published counts of raters (support.parquet): which share of a group rated an item, and which items go
together.

A blank cell is not zero: its count is below min_contributors, or nothing of the item is published. The highest count
that an item shows may stand for more. For each item the beta-binomial law is found under which its cells are likeliest,
rare items being likelier than popular ones beforehand (1/p), and cells get the mean count that this law gives to them.
Only published numbers are used.
"""

import numpy as np
from scipy.stats import betabinom

POPULARITIES = np.concatenate([np.geomspace(5e-4, 0.1, 25), np.linspace(0.12, 0.9, 40)])
CORRELATIONS = np.array([0.003, 0.01, 0.03, 0.08, 0.2])
LEAST_CHANCE = 1e-12
CODED_FROM = 0.3  # of the group; chosen on MovieLens 100K


def shares_of_groups(counts: np.ndarray, sizes: np.ndarray, c: int) -> np.ndarray:
    """Return the expected share of raters of every cell, from published counts (groups × items; 0: blank).

    A published v stands for v … v + c − 1, less where the next published count is nearer. The highest count of an item
    may be its top code and stand for v and more. It is taken for one where it is no multiple of c, or so high that a
    group with a few more raters would need one; its cells are then expected to hold what the law gives them, but no
    more than may be published. Groups count as all of the median size where a law is fitted: a release's groups differ
    little.
    """
    n = int(np.median(sizes))
    x = np.arange(n + 1)
    popularity, correlation = (one.ravel() for one in np.meshgrid(POPULARITIES, CORRELATIONS, indexing="ij"))
    strength = (1 / correlation - 1)[:, None]
    chance = betabinom.pmf(x, n, popularity[:, None] * strength, (1 - popularity)[:, None] * strength)
    below, links = (np.pad(np.cumsum(part, axis=1), ((0, 0), (1, 0))) for part in (chance, chance * x))
    limit = np.maximum(0.5, np.minimum(popularity + 0.1, (1 + popularity) / 2))
    found = np.empty(counts.shape, np.float32)
    for item in range(counts.shape[1]):
        values, place, number = np.unique(counts[:, item], return_inverse=True, return_counts=True)
        is_coded = values[-1] % c != 0 or values[-1] >= CODED_FROM * n
        start, stop = _ranges(values, n, c, is_coded)
        mass = below[:, stop] - below[:, start]
        best = int((np.log(mass + LEAST_CHANCE) @ number - np.log(popularity)).argmax())
        mean = (links[best, stop] - links[best, start]) / np.maximum(mass[best], LEAST_CHANCE) / n
        if is_coded:
            mean[-1] = min(mean[-1], limit[best])
        found[:, item] = np.clip(mean, start / n, (stop - 1) / n)[place]
    return found


def _ranges(values: np.ndarray, n: int, c: int, is_coded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return for the counts that an item shows, ascending, 0 for blank, the first real count that each stands for, and
    the first one that it does not."""
    start = np.minimum(values, n)
    stop = np.minimum(np.where(values > 0, values + c, c), n + 1)
    stop[:-1] = np.minimum(stop[:-1], np.maximum(start[1:], start[:-1] + 1))
    if is_coded:
        stop[-1] = n + 1
    return start, stop


def gram_of_groups(shares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return Σ size · share shareᵀ over groups, items × items: the Gram matrix of people who all have their group's
    shares as history."""
    weighted = shares * np.sqrt(sizes).astype(np.float32)[:, None]
    return (weighted.T @ weighted).astype(np.float64)
