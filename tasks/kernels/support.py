"""Decide what is shown of the counts of real raters beside a group's profile (docs/proofs/support.md).

A cell (group, item) with X raters is blank below c, and otherwise shows X, rounded down to a multiple of c. Where that
would make a link of some group's members likelier than max(1/2, popularity + 0.10), the item has a *top code* t: every
count from t on shows t, which stands for "t or more", and t is so low that these counts together stay within the limit.
What a cell shows follows from its own count and from how often each count of the item occurs, without regard to which
group has which; nothing is drawn.
"""

from collections.abc import Iterator
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


def strata_of_groups(counts: Counts) -> Iterator[np.ndarray]:
    """Yield the partitions of the groups in each part of which the limit holds: all groups together, the classes of
    activity, and the sizes (those of fewer groups than FEWEST_IN_CLASS together)."""
    yield np.zeros(len(counts.sizes), np.int64)
    yield activity_classes(counts)
    size, place, number = np.unique(counts.sizes, return_inverse=True, return_counts=True)
    common = np.where(number >= FEWEST_IN_CLASS, size, 0)
    yield np.unique(common[place], return_inverse=True)[1]


def shown_counts(counts: Counts, c: int) -> np.ndarray:
    """Return what each cell shows; 0: it is blank."""
    top = top_codes(counts)[counts.item]
    rounded = np.where(counts.raters >= top, top, counts.raters // c * c)
    return np.where((counts.raters >= c) & (top >= c), rounded, 0)


def top_codes(counts: Counts) -> np.ndarray:
    """Return each item's top code: the largest count t for which no count below it is above its limit, and the counts
    from it on are within the limit together, for each attacker; above every size where the item needs none."""
    none = int(counts.sizes.max(initial=0)) + 1
    strata = list(strata_of_groups(counts))
    most = np.full(counts.n_items, none)
    for labels in strata:
        above = _excess(counts, labels)[1] > TINY
        np.minimum.at(most, counts.item[above], counts.raters[above])
    needed = most < none
    found = np.where(needed, np.minimum(most, _largest_by_law(counts, most)), none)
    for labels in strata:
        found = np.where(needed, np.minimum(found, _largest_by_counts(counts, labels, most)), none)
    return found


def _excess(counts: Counts, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the part (item and stratum) of each cell, and its links less the limit times its people."""
    strata = int(labels.max(initial=0)) + 1
    people = np.bincount(labels, weights=counts.sizes, minlength=strata)
    part = counts.item.astype(np.int64) * strata + labels[counts.group]
    links = np.bincount(part, weights=counts.raters, minlength=counts.n_items * strata)
    limit = limits(links / np.maximum(np.tile(people, counts.n_items), 1))  # a class may have no groups
    return part, counts.raters - limit[part] * counts.sizes[counts.group]


def _largest_by_counts(counts: Counts, labels: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return the largest t up to `most` from which on the counts of an item have no excess in any stratum.

    A cell below `most` has no excess of its own, so the sum only falls as t does; with all cells it is the popularity
    less the limit, times people: not above 0. It changes at counts that occur, and is looked at there.
    """
    part, excess = _excess(counts, labels)
    strata = int(labels.max(initial=0)) + 1
    order = np.lexsort((-counts.raters, part))
    part, raters, running = part[order], counts.raters[order], np.cumsum(excess[order])
    first = np.flatnonzero(np.diff(part, prepend=-1))
    before = np.where(first > 0, running[first - 1], 0.0)
    running = running - np.repeat(before, np.diff(np.append(first, len(part))))
    is_last = np.append((part[1:] != part[:-1]) | (raters[1:] != raters[:-1]), True)[: len(part)]
    cap = most[part // strata]
    found = np.zeros(counts.n_items * strata, np.int64)
    good = is_last & (running <= TINY) & (raters <= cap)
    np.maximum.at(found, part[good], raters[good])
    # Between two counts that occur, the sum is that of the higher one.
    above = np.bincount(part, weights=np.where(raters >= cap, excess[order], 0.0), minlength=len(found))
    found = np.where(above <= TINY, np.repeat(most, strata), found)
    return found.reshape(counts.n_items, strata).min(axis=1)


def _largest_by_law(counts: Counts, most: np.ndarray) -> np.ndarray:
    """Return the largest t up to `most` from which on no excess is expected of groups of any size, if counts follow the
    beta-binomial law with the item's popularity and spread."""
    popularity, correlation = spread_of_items(counts)
    limit, found = limits(popularity), most.copy()
    for n in np.unique(counts.sizes).tolist():
        x = np.arange(n + 1)
        at_once = max(1, CELLS_AT_ONCE // (n + 1))
        for start in range(0, counts.n_items, at_once):
            some = slice(start, start + at_once)
            apart = _beta_binomial(n, popularity[some], correlation[some]) * (x - limit[some, None] * n)
            excess = np.cumsum(apart[:, ::-1], axis=1)[:, ::-1]
            good = (excess <= 0) & (x <= most[some, None])
            found[some] = np.minimum(found[some], np.where(good, x, 0).max(axis=1))
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
