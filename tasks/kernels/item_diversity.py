"""Find items and sets of items that too few groups hold, and the cheapest cells that repair this.

[Chang2009], section 5.1, (1,l)- and (b,l)-diversity: every item (every b items that one user really rated together)
must occur in at least l groups. Fake cells are added where they distort least: where the members' predictions agree
most.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.special import comb

MAX_LISTED_SETS = 5_000_000  # sets of three and more items are listed one by one; more are refused
MAX_COUNTED_PAIRS = 3_000_000_000  # pairs are counted by sparse products; an estimate, not measured
MAX_REPAIR_CELLS = 400_000_000  # the repair holds tables of groups × items, five bytes a cell

VarianceOfItems = Callable[
    [np.ndarray], np.ndarray
]  # items → (groups, items) variance of the members' predictions


class TooManySets(Exception):
    """Report that there are more b-sets than can be enumerated, with their number."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(frozen=True)
class Holders:
    """Hold the groups that contain each item: those of item i are groups[indptr[i] : indptr[i + 1]], in any order."""

    indptr: np.ndarray
    groups: np.ndarray  # int32
    n_groups: int

    @classmethod
    def collect(
        cls, profiles: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]], n_items: int
    ) -> "Holders":
        """Collect holders from blocks of consecutive groups, given as (items, number of items per group).

        `profiles` is iterated twice.
        """
        counts, n_groups = np.zeros(n_items, np.int64), 0
        for items, lengths in profiles():
            counts += np.bincount(items, minlength=n_items)
            n_groups += len(lengths)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        groups, free, first = np.empty(indptr[-1], np.int32), indptr[:-1].copy(), 0
        for items, lengths in profiles():
            _note_holders(items, lengths, first, free, groups)
            first += len(lengths)
        return cls(indptr, groups, n_groups)

    @property
    def counts(self) -> np.ndarray:
        """Count the groups that hold each item."""
        return np.diff(self.indptr)

    def groups_of(self, item: int) -> np.ndarray:
        """Return the groups that hold an item."""
        return self.groups[self.indptr[item] : self.indptr[item + 1]]

    def members(self, sizes: np.ndarray) -> np.ndarray:
        """Count the users in the groups that hold each item."""
        return np.array([sizes[self.groups_of(item)].sum() for item in range(len(self.counts))], np.int64)

    def with_additions(self, added: "Additions") -> "Holders":
        """Return the holders after cells were added."""
        order = np.argsort(added.item, kind="stable")
        counts = self.counts + np.bincount(added.item, minlength=len(self.counts))
        groups = np.insert(self.groups, self.indptr[added.item[order] + 1], added.group[order])
        return Holders(np.concatenate([[0], np.cumsum(counts)]), groups, self.n_groups)

    def matrix(self) -> sp.csr_array:
        """Return a sparse matrix with 1 where a group holds an item."""
        ones = np.ones(len(self.groups), np.int8)
        return sp.csc_array((ones, self.groups, self.indptr), shape=(self.n_groups, len(self.counts))).tocsr()


@njit(cache=True, nogil=True)
def _note_holders(items, lengths, first, free, groups):  # type: ignore[no-untyped-def]
    cell = 0
    for row in range(len(lengths)):
        for _ in range(lengths[row]):
            groups[free[items[cell]]] = first + row
            free[items[cell]] += 1
            cell += 1


@dataclass(frozen=True)
class Additions:
    """Hold the cells to add so that at least l groups hold every set of items."""

    group: np.ndarray
    item: np.ndarray
    complete: bool  # false: the budget ran out first

    @classmethod
    def join(cls, group: list[np.ndarray], item: list[np.ndarray]) -> "Additions":
        """Join the additions for several items."""
        nothing = np.zeros(0, np.int32)
        return cls(np.concatenate([nothing, *group]), np.concatenate([nothing, *item]), True)


def draw_decoys(
    holders: Holders, raters: np.ndarray, sizes: np.ndarray, margin: float, rng: np.random.Generator
) -> Additions:
    """Add groups to items whose real raters are concentrated in fewer groups than chance would put them in.

    If ratings were independent, a member of a group that holds an item of popularity p would have rated it with
    probability p / (1 − (1 − p)^k) (the argument of [Chang2009], Theorem 6.3). Similar users rate similar items, so
    the real share is higher; groups drawn at random lower it to that value plus `margin`. They are drawn at random
    because any rule, even least distortion, would help an attacker distinguish decoys from real holders.
    """
    users, mean_size = int(sizes.sum()), float(sizes.mean())
    popularity = np.minimum(raters / users, 1 - 1e-9)
    independent = popularity / np.maximum(-np.expm1(mean_size * np.log1p(-popularity)), 1e-12)
    lacking = raters / np.maximum(independent + margin, 1e-9) - holders.members(sizes)
    free = holders.n_groups - holders.counts
    wanted = np.minimum(np.maximum(np.ceil(lacking / mean_size), 0), free).astype(np.int64)
    group, item = [], []
    for position in np.flatnonzero(wanted).tolist():
        without = np.ones(holders.n_groups, bool)
        without[holders.groups_of(position)] = False
        drawn = rng.choice(np.flatnonzero(without), wanted[position], replace=False)
        group.append(np.sort(drawn).astype(np.int32))
        item.append(np.full(wanted[position], position, np.int32))
    return Additions.join(group, item)


def top_up_items(
    holders: Holders, least_groups: int, variances: VarianceOfItems, cells: int = 16_000_000
) -> Additions:
    """Add to each item in fewer than l groups the groups with the lowest variance; `cells` bounds the table held at a
    time.
    """
    items = np.flatnonzero(holders.counts < least_groups)
    width = max(1, cells // max(holders.n_groups, 1))
    group, item = [], []
    for start in range(0, len(items), width):
        some = items[start : start + width]
        for position, cost in zip(some.tolist(), variances(some).T.copy(), strict=True):
            held = holders.groups_of(position)
            cost[held] = np.inf
            chosen = np.argsort(cost, kind="stable")[: least_groups - len(held)]
            group.append(chosen.astype(np.int32))
            item.append(np.full(len(chosen), position, np.int32))
    return Additions.join(group, item)


def require_examinable(rated: np.ndarray, held: np.ndarray, size: int, n_items: int) -> None:
    """Raise TooManySets where examining and repairing b-sets would take hours or exceed the memory.

    Takes the number of items each user rated and each group holds, so that it can be called before anything is read.
    """
    sets = max(int(comb(lengths.astype(np.float64), size).sum()) for lengths in (rated, held))
    if sets > (MAX_COUNTED_PAIRS if size == 2 else MAX_LISTED_SETS) or len(held) * n_items > MAX_REPAIR_CELLS:
        raise TooManySets(sets)


def find_deficient_sets(rated: sp.csr_array, holds: sp.csr_array, size: int, least_groups: int) -> np.ndarray:
    """Return the b-sets that a user rated and fewer than l groups hold, (sets, b); pairs by sparse products."""
    if size == 2:
        return _deficient_pairs(rated, holds, least_groups)
    rows = (rated.indices[a:b] for a, b in zip(rated.indptr[:-1], rated.indptr[1:], strict=True))
    sets = {chosen for row in rows for chosen in combinations(np.sort(row).tolist(), size)}
    listed = np.array(sorted(sets), np.int64).reshape(-1, size)
    columns = holds.toarray().astype(bool).T
    held = np.array([columns[chosen].all(axis=0).sum() for chosen in listed], np.int64)
    return listed[held < least_groups]


def top_up_sets(
    holds: sp.csr_array, sets: np.ndarray, least_groups: int, variances: VarianceOfItems, budget: int
) -> Additions:
    """Complete the groups that already hold most of a set, lowest variance first, within a budget of cells."""
    if len(sets) == 0:
        return Additions(np.zeros(0, np.int64), np.zeros(0, np.int64), True)
    held = holds.toarray().astype(bool)
    items = np.unique(sets)
    cost = np.zeros(held.shape, np.float32)
    cost[:, items] = variances(items)
    cost /= max(float(cost.max()), 1e-12) * 2  # below one, so that fewer additions always win
    added_group: list[int] = []
    added_item: list[int] = []
    for chosen in sets:
        present = held[:, chosen]
        missing = least_groups - int(present.all(axis=1).sum())
        if missing <= 0:
            continue  # an earlier addition repaired this set too
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
