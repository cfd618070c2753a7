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
    """Return the published counts (0: blank), by a plain loop over the rule of docs/proofs/support.md: cells are left
    out one by one, in a random order, while an attacker is too sure."""
    sizes = np.bincount(released.group_of, minlength=released.n_groups)
    counts, draw = count(released), np.random.default_rng(8)
    shown = np.zeros_like(counts)
    for item in range(counts.shape[1]):
        own = counts[:, item]
        may = (own >= C) & (2 * own <= sizes)
        kept = may.copy()
        for group in draw.permutation(np.flatnonzero(may)):
            if not _too_sure(own, sizes, may, kept):
                break
            kept[group] = False
        shown[kept, item] = own[kept] // C * C
    return shown


def _too_sure(own, sizes, may, kept):
    popularity = own.sum() / sizes.sum()
    limit = max(0.5, min(popularity + 0.1, (1 + popularity) / 2))
    if (~kept).any() and own[~kept].sum() / sizes[~kept].sum() > limit + 1e-9:
        return True
    apart = sum(n * (x / n - popularity) ** 2 for x, n in zip(own, sizes, strict=True))
    spread = (apart / (popularity * (1 - popularity)) - (len(own) - 1)) / (sizes.sum() - len(own))
    spread = min(max(spread, 1e-4), 0.95)
    a, b = popularity * (1 / spread - 1), (1 - popularity) * (1 / spread - 1)
    left_out = (may & ~kept).sum() / may.sum()

    def beta(one, other):
        return lgamma(one) + lgamma(other) - lgamma(one + other)

    for n in sorted(set(sizes.tolist())):
        chance = [comb(n, x) * exp(beta(a + x, b + n - x) - beta(a, b)) for x in range(n + 1)]
        blank = [c * (left_out if C <= x <= n / 2 else 1) for x, c in enumerate(chance)]
        if sum(x * c for x, c in enumerate(blank)) > limit * n * sum(blank) + 1e-12:
            return True
    return False


def write_support(published, cells):
    """Write support.parquet from a table groups × items."""
    group, item = np.nonzero(cells)
    columns = {"group": group, "item": item, "raters": cells[group, item]}
    table = pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})
    pq.write_table(table, published / "support.parquet")
