"""Make a release with counts of raters without any code of the pipeline: groups of people who like the same items."""

import functools
from math import comb, exp, lgamma

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GROUPS, K, ITEMS = 24, 12, 60
C = 3


@functools.cache
def release(everybody=None, only_blank=None, alike=False):
    """Groups of twelve whose members rate the items of one of four tastes more often than others.

    everybody: a cell (group, item) that all members of the group rated; only_blank: the same, while half of every other
    group rated the item; alike: groups have no tastes.
    """
    draw = np.random.default_rng(4)
    users = GROUPS * K
    group_of = draw.permutation(np.repeat(np.arange(GROUPS), K))
    popular = 0.75 * (np.arange(ITEMS) + 2.0) ** -0.35
    liked = (np.arange(GROUPS)[:, None] % 4) == (np.arange(ITEMS)[None, :] % 4)
    rated = (
        draw.random((users, ITEMS))
        < (popular * np.where(liked | alike, 1.0 if alike else 1.4, 0.45))[group_of]
    )
    rated[np.arange(users), draw.integers(0, ITEMS, users)] = True
    if everybody is not None:
        rated[group_of == everybody[0], everybody[1]] = True
    if only_blank is not None:
        for group in range(GROUPS):
            members = np.flatnonzero(group_of == group)
            rated[members, only_blank[1]] = np.arange(K) < (K if group == only_blank[0] else K // 2)
    rows, columns = np.nonzero(rated)
    ratings = made.csr(rows, columns, draw.integers(1, 6, len(rows)).astype(float), (users, ITEMS))
    values = np.clip(3 + draw.normal(0, 0.3, (GROUPS, ITEMS)), 1, 5).astype(np.float32)
    return made.Made(ratings, group_of, values, k=K, c=C)


def count(released):
    """Return how many members of each group rated each item."""
    counts = np.zeros(released.values.shape, int)
    rows = np.repeat(np.arange(len(released.group_of)), np.diff(released.ratings.indptr))
    np.add.at(counts, (released.group_of[rows], released.ratings.indices), 1)
    return counts


def cells_by_rule(released):
    """Return the published counts (0: blank), by a plain loop over the rule of docs/proofs/support.md: the highest of
    all top codes with which no attacker is too sure. Groups are of one size and too few to have classes of activity."""
    counts = count(released)
    shown = np.zeros_like(counts)
    for item in range(counts.shape[1]):
        own = counts[:, item]
        for top in [K + 1, *range(K, 0, -1)]:
            if not _too_sure(own, top):
                if top >= C:
                    shown[:, item] = np.where(own >= top, top, own // C * C)
                break
    return shown


def _too_sure(own, top):
    """Whether somebody believes too much of counts shown with this top code: who knows them, or who knows the law."""
    popularity = own.sum() / (K * len(own))
    limit = max(0.5, min(popularity + 0.1, (1 + popularity) / 2))
    if any(x > limit * K for x in own[own < top]):
        return True
    if top > K:
        return False
    if own[own >= top].sum() > limit * K * (own >= top).sum() + 1e-9:
        return True
    apart = sum(K * (x / K - popularity) ** 2 for x in own)
    spread = (apart / (popularity * (1 - popularity)) - (len(own) - 1)) / (K * len(own) - len(own))
    spread = min(max(spread, 1e-4), 0.95)
    a, b = popularity * (1 / spread - 1), (1 - popularity) * (1 / spread - 1)

    def beta(one, other):
        return lgamma(one) + lgamma(other) - lgamma(one + other)

    chance = [comb(K, x) * exp(beta(a + x, b + K - x) - beta(a, b)) for x in range(K + 1)]
    return sum((x - limit * K) * chance[x] for x in range(top, K + 1)) > 0


def write_support(published, cells):
    """Write support.parquet from a table groups × items."""
    group, item = np.nonzero(cells)
    columns = {"group": group, "item": item, "raters": cells[group, item]}
    table = pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})
    pq.write_table(table, published / "support.parquet")
