"""Learn from published counts of raters (support.parquet): which share of a group rated an item, and which items go
together.

A blank cell is not zero: its count is below min_contributors, above half of the group, or was left out. For each item
the beta-binomial law is found under which its published and blank cells are likeliest, rare items being likelier than
popular ones beforehand (1/p), and blank cells get the mean count that this law gives to them. Only published numbers
are used.
"""

import numpy as np
from scipy.stats import betabinom

POPULARITIES = np.concatenate([np.geomspace(5e-4, 0.1, 25), np.linspace(0.12, 0.9, 40)])
CORRELATIONS = np.array([0.003, 0.01, 0.03, 0.08, 0.2])


def shares_of_groups(counts: np.ndarray, sizes: np.ndarray, c: int) -> np.ndarray:
    """Return the expected share of raters of every cell, from published counts (groups × items; 0: blank).

    A published v stands for v … v + c − 1. Groups count as all of the median size where a law is fitted: a release's
    groups differ little.
    """
    n = int(np.median(sizes))
    x = np.arange(n + 1)
    levels = n // 2 // c
    level = np.where((x >= c) & (2 * x <= n), x // c, 0)
    popularity, correlation = (one.ravel() for one in np.meshgrid(POPULARITIES, CORRELATIONS, indexing="ij"))
    strength = (1 / correlation - 1)[:, None]
    chance = betabinom.pmf(x, n, popularity[:, None] * strength, (1 - popularity)[:, None] * strength)
    by_level = np.stack([chance[:, level == one].sum(axis=1) for one in range(levels + 1)], axis=1)
    found = np.minimum(counts // c, levels)
    seen = np.stack([(found == one).sum(axis=0) for one in range(levels + 1)], axis=1)
    best = (seen @ np.log(by_level + 1e-12).T - np.log(popularity)[None, :]).argmax(axis=1)
    blank = chance * (level == 0)
    expected = (blank @ x / np.maximum(blank.sum(axis=1), 1e-12) / n)[best]
    shown = (np.minimum(counts + (c - 1) / 2, sizes[:, None] / 2)) / sizes[:, None]
    return np.where(counts > 0, shown, expected[None, :]).astype(np.float32)


def gram_of_groups(shares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return Σ size · share shareᵀ over groups, items × items: the Gram matrix of people who all have their group's
    shares as history."""
    weighted = shares * np.sqrt(sizes).astype(np.float32)[:, None]
    return (weighted.T @ weighted).astype(np.float64)
