"""(1,l)- and (b,l)-diversity: which items and sets of items too few groups hold, and the cheapest cells that mend it.

Paper section 5.1: every item (every b items that some user really rated together) must occur in at least l
groups. Fake cells are added where they distort least: where the members' predictions agree most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import scipy.sparse as sp

ENUMERABLE = 5_000_000  # sets of three and more items are listed one by one; beyond this we do not try

Spread = Callable[[np.ndarray], np.ndarray]  # items → (groups, items) variance of the members' predictions


class TooManySets(Exception):
    """There are more b-sets than can be enumerated; carries their number."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(frozen=True)
class Additions:
    """Cells to add so that every set of items is held by at least l groups."""

    group: np.ndarray
    item: np.ndarray
    complete: bool  # false: the budget ran out first


def decoys(
    holds: sp.csr_array, raters: np.ndarray, sizes: np.ndarray, margin: float, rng: np.random.Generator
) -> Additions:
    """Further groups for items whose real raters sit together more than chance would have it.

    If ratings were independent, a member of a group that holds an item of popularity p would have rated it with
    probability p / (1 − (1 − p)^k) (paper, Theorem 6.3's argument). Similar users rate similar items, so the real
    share is higher; groups drawn at random bring it down to that value plus `margin`. At random, because a choice
    by any rule, even by least distortion, would help to tell the decoys from the rest.
    """
    users, mean_size = int(sizes.sum()), float(sizes.mean())
    popularity = np.minimum(raters / users, 1 - 1e-9)
    independent = popularity / np.maximum(-np.expm1(mean_size * np.log1p(-popularity)), 1e-12)
    members = np.asarray(sizes @ (holds != 0)).ravel()  # people who seem to have rated the item
    lacking = raters / np.maximum(independent + margin, 1e-9) - members
    free = holds.shape[0] - _groups_per_item(holds)
    wanted = np.minimum(np.maximum(np.ceil(lacking / mean_size), 0), free).astype(np.int64)
    columns = sp.csc_array(holds)
    group, item = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for position in np.flatnonzero(wanted):
        without = np.ones(holds.shape[0], bool)
        without[columns.indices[columns.indptr[position] : columns.indptr[position + 1]]] = False
        group.append(np.sort(rng.choice(np.flatnonzero(without), wanted[position], replace=False)))
        item.append(np.full(wanted[position], position))
    return Additions(np.concatenate(group), np.concatenate(item), True)


def top_up_items(holds: sp.csr_array, least_groups: int, spread: Spread, block: int = 1024) -> Additions:
    """For each item in fewer than l groups, the further groups of least spread."""
    count = _groups_per_item(holds)
    columns = sp.csc_array(holds)
    items = np.flatnonzero(count < least_groups)
    group, item = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start in range(0, len(items), block):
        some = items[start : start + block]
        cost = spread(some).astype(np.float64)
        cost[columns[:, some].toarray() != 0] = np.inf
        order = np.argsort(cost, axis=0, kind="stable")
        chosen = np.arange(holds.shape[0])[:, None] < (least_groups - count)[some][None, :]
        rank, column = np.nonzero(chosen)
        group.append(order[rank, column])
        item.append(some[column])
    return Additions(np.concatenate(group), np.concatenate(item), True)


def deficient_sets(rated: sp.csr_array, holds: sp.csr_array, size: int, least_groups: int) -> np.ndarray:
    """The b-sets that some user rated and fewer than l groups hold, (sets, b). Pairs by sparse products."""
    if size == 2:
        return _deficient_pairs(rated, holds, least_groups)
    lengths = np.diff(rated.indptr)
    total = sum(comb(int(n), size) for n in lengths)
    if total > ENUMERABLE:
        raise TooManySets(total)
    rows = (rated.indices[a:b] for a, b in zip(rated.indptr[:-1], rated.indptr[1:], strict=True))
    sets = {chosen for row in rows for chosen in combinations(np.sort(row).tolist(), size)}
    listed = np.array(sorted(sets), np.int64).reshape(-1, size)
    columns = holds.toarray().astype(bool).T
    held = np.array([columns[chosen].all(axis=0).sum() for chosen in listed], np.int64)
    return listed[held < least_groups]


def top_up_sets(
    holds: sp.csr_array, sets: np.ndarray, least_groups: int, spread: Spread, budget: int
) -> Additions:
    """Complete the groups that already hold most of a set, least spread first, within a budget of cells."""
    if len(sets) == 0:
        return Additions(np.zeros(0, np.int64), np.zeros(0, np.int64), True)
    held = holds.toarray().astype(bool)
    items = np.unique(sets)
    cost = np.zeros(held.shape, np.float32)
    cost[:, items] = spread(items)
    cost /= max(float(cost.max()), 1e-12) * 2  # below one, so that fewer additions always win
    added_group: list[int] = []
    added_item: list[int] = []
    for chosen in sets:
        present = held[:, chosen]
        missing = least_groups - int(present.all(axis=1).sum())
        if missing <= 0:
            continue  # an earlier addition mended this one too
        price = np.where(
            present.all(axis=1), np.inf, (~present).sum(axis=1) + (cost[:, chosen] * ~present).mean(axis=1)
        )
        for group in np.argsort(price, kind="stable")[:missing]:
            for item in chosen[~held[group, chosen]]:
                held[group, item] = True
                added_group.append(int(group))
                added_item.append(int(item))
        if len(added_group) > budget:
            return Additions(np.array(added_group), np.array(added_item), False)
    return Additions(np.array(added_group, np.int64), np.array(added_item, np.int64), True)


def _groups_per_item(holds: sp.csr_array) -> np.ndarray:
    return np.bincount(holds.indices, minlength=holds.shape[1])


def _deficient_pairs(
    rated: sp.csr_array, holds: sp.csr_array, least_groups: int, block: int = 512
) -> np.ndarray:
    ones = sp.csr_array((np.ones(rated.nnz, np.int32), rated.indices, rated.indptr), shape=rated.shape)
    held = sp.csr_array((np.ones(holds.nnz, np.int32), holds.indices, holds.indptr), shape=holds.shape)
    rated_by_item, held_by_item = ones.T.tocsr(), held.T.tocsr()
    found = []
    for start in range(0, rated.shape[1], block):
        part = slice(start, start + block)
        together = (rated_by_item[part] @ ones).toarray() > 0
        in_groups = (held_by_item[part] @ held).toarray()
        first, second = np.nonzero(together & (in_groups < least_groups))
        keep = first + start < second
        found.append(np.stack([first[keep] + start, second[keep]], axis=1))
    return np.concatenate(found)
