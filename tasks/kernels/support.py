"""Decide which counts of real raters may be published beside a group's profile (docs/proofs/support.md).

A cell (group, item) may show its count X, rounded down to a multiple of c, where c ≤ X ≤ size/2; every other cell is
blank. Where the blank cells of an item would then show that a member probably rated it, further cells are left out, in
a secret random order, until no attacker of the proof is more certain of a link than max(1/2, popularity + 0.10). How
many are left out follows from the item's counts without regard to which group has which, so nothing distinguishes the
blank cells of an item.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln

ALLOWED_GAIN = 0.10  # of a link's chance over the item's popularity
ALLOWED_CHANCE = 0.5  # whatever the popularity
CLASSES = 4  # of groups by the mean number of ratings of their members
FEWEST_IN_CLASS = 10
LEAST_CORRELATION, MOST_CORRELATION = (
    1e-4,
    0.95,
)  # of two members of a group; below, members are as good as independent
CELLS_AT_ONCE = 4_000_000
TINY = 1e-9


@dataclass(frozen=True)
class Counts:
    """Hold how many members really rated an item: cells with at least one rater, by group and item."""

    group: np.ndarray
    item: np.ndarray
    raters: np.ndarray
    sizes: np.ndarray  # of all groups
    n_items: int


def limits(popularity: np.ndarray) -> np.ndarray:
    """Return the largest allowed posterior of a link: max(1/2, popularity + 0.10), and never half of the way from the
    popularity to certainty or more."""
    return np.maximum(ALLOWED_CHANCE, np.minimum(popularity + ALLOWED_GAIN, (1 + popularity) / 2))


def activity_classes(counts: Counts) -> np.ndarray:
    """Return a class for each group by its members' mean number of ratings: quarters, or one class of few groups."""
    groups = len(counts.sizes)
    if groups < CLASSES * FEWEST_IN_CLASS:
        return np.zeros(groups, np.int64)
    mean = np.bincount(counts.group, weights=counts.raters, minlength=groups) / counts.sizes
    return np.searchsorted(np.quantile(mean, np.arange(1, CLASSES) / CLASSES), mean, side="left")


def published_cells(counts: Counts, c: int, rng: np.random.Generator) -> np.ndarray:
    """Return which cells are published; `rng` draws the order in which cells are left out."""
    size = counts.sizes[counts.group].astype(np.float64)
    may = (counts.raters >= c) & (2 * counts.raters <= size)
    order = rng.permutation(len(may))
    classes = activity_classes(counts)
    whole = np.zeros_like(classes)
    left_out = np.zeros(len(may), bool)
    for strata in (whole, classes):
        left_out |= _left_out_by_counts(counts, may, order, strata)
    return may & ~(left_out | _left_out_by_law(counts, c, may, order))


def _left_out_by_counts(counts: Counts, may: np.ndarray, order: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Return the cells to leave out for the attacker who knows how often each count of the item occurs in each stratum
    of groups: the share of links in all blank cells is that of any of them.

    Excess: links less the limit times people, over blank cells. It must not be above 0. A cell that may be published
    has at most half of its group, so each one that is left out makes it smaller, and all of them together leave the
    popularity, which is below the limit.
    """
    n_strata = int(strata.max(initial=0)) + 1
    size = counts.sizes[counts.group].astype(np.float64)
    part = counts.item.astype(np.int64) * n_strata + strata[counts.group]
    length = counts.n_items * n_strata
    people = np.tile(np.bincount(strata, weights=counts.sizes, minlength=n_strata), counts.n_items)
    links = np.bincount(part, weights=counts.raters, minlength=length)
    limit = limits(np.divide(links, people, out=np.zeros(length), where=people > 0))
    shown_links = np.bincount(part[may], weights=counts.raters[may], minlength=length)
    shown_people = np.bincount(part[may], weights=size[may], minlength=length)
    excess = (links - shown_links) - limit * (people - shown_people)
    cells = np.flatnonzero(may)
    cells = cells[np.lexsort((order[cells], part[cells]))]
    own = part[cells]
    gain = counts.raters[cells] - limit[own] * size[cells]
    running = np.cumsum(gain) - gain
    first = np.flatnonzero(np.diff(own, prepend=-1))
    before = running - np.repeat(running[first], np.diff(np.append(first, len(own))))
    found = np.zeros(len(may), bool)
    found[cells] = excess[own] + before > TINY
    return found


def _left_out_by_law(counts: Counts, c: int, may: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the cells to leave out for the attacker who expects counts to follow a beta-binomial law with the item's
    popularity and spread: a share q of those that may be published, the same whatever their counts."""
    popularity, correlation = spread_of_items(counts)
    share = np.zeros(counts.n_items)
    limit = limits(popularity)
    for n in np.unique(counts.sizes).tolist():
        x = np.arange(n + 1)
        shown = (x >= c) & (2 * x <= n)
        at_once = max(1, CELLS_AT_ONCE // (n + 1))
        for start in range(0, counts.n_items, at_once):
            some = slice(start, start + at_once)
            apart = _beta_binomial(n, popularity[some], correlation[some]) * (x - limit[some, None] * n)
            excess, relief = apart[:, ~shown].sum(axis=1), -apart[:, shown].sum(axis=1)
            needed = np.divide(excess, relief, out=np.zeros(len(excess)), where=(excess > 0) & (relief > 0))
            share[some] = np.maximum(share[some], needed)
    cells = np.flatnonzero(may)
    cells = cells[np.lexsort((order[cells], counts.item[cells]))]
    own = counts.item[cells]
    first = np.flatnonzero(np.diff(own, prepend=-1))
    number = np.diff(np.append(first, len(own)))
    place = np.arange(len(own)) - np.repeat(first, number)
    found = np.zeros(len(may), bool)
    found[cells] = place < np.ceil(np.minimum(share[own], 1) * np.repeat(number, number) - TINY)
    return found


def spread_of_items(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Return each item's popularity p, and the correlation ρ of two members of a group by the method of moments:
    Σ n (X/n − p)² has the mean p (1 − p) Σ (1 + (n − 1) ρ)."""
    size = counts.sizes[counts.group]
    people, groups = float(counts.sizes.sum()), len(counts.sizes)
    links = np.bincount(counts.item, weights=counts.raters, minlength=counts.n_items)
    squares = np.bincount(counts.item, weights=counts.raters**2.0 / size, minlength=counts.n_items)
    popularity = links / people
    variance = popularity * (1 - popularity)
    apart = (squares - popularity**2 * people) / np.where(variance > 0, variance, 1)
    correlation = (apart - (groups - 1)) / max(1.0, people - groups)
    return popularity, np.clip(correlation, LEAST_CORRELATION, MOST_CORRELATION)


def _beta_binomial(n: int, popularity: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Return the chances of 0 … n, a row per item."""
    x = np.arange(n + 1)
    p = np.clip(popularity, 1e-12, 1 - 1e-12)[:, None]
    strength = (1 / correlation - 1)[:, None]
    ways = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    a, b = p * strength, (1 - p) * strength
    return np.exp(ways + betaln(a + x, b + n - x) - betaln(a, b))
