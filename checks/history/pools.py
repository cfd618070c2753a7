"""Find pools of survivors, and test that they follow the transversal rule.

After erasures a group is withdrawn whole and its survivors wait. They may return in *pools*: K ≥ k withdrawn groups of
which every new group takes exactly one member each. Survivors are then in classes of one, and still no linear
combination of all that was published isolates fewer than k people. Let s ≥ k be the size of the old groups, M the
number of new ones, u the number of members of an old group who are in no new one, and let p of the old groups have
non-zero coefficients. p = 0 leaves whole new groups, of K people each. 0 < p < K: the members in no new group of one of
the p are left, and of every new group at least min(p, K − p) ≥ 1, together u + M = s ≥ k. p = K with unequal
coefficients: the same. p = K with equal ones leaves those who are in no new group, of all K together: these must be k
or nobody.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from checks.history.member_sets import MemberSets


@dataclass(frozen=True)
class Pools:
    """Hold which sets are part of a pool that follows the rule (`old` or `new` there), and who is in one."""

    old: np.ndarray
    new: np.ndarray
    people: np.ndarray

    @classmethod
    def of(cls, sets: MemberSets, k: int) -> "Pools":
        """Test every cluster of sets that share people."""
        count = sets.members.shape[0]
        old, new = np.zeros(count, bool), np.zeros(count, bool)
        _, cluster = connected_components(sets.shared, directed=False)
        involved = np.flatnonzero(np.diff(sets.shared.indptr))
        for one in np.unique(cluster[involved]):  # over pools, not people
            inside = np.flatnonzero(cluster == one)
            before, after = _sides(sets, inside)
            if _transversal(sets, before, after, k):
                old[before], new[after] = True, True
        return cls(old, new, np.asarray(sets.members[np.flatnonzero(old | new)].sum(axis=0)).ravel() > 0)


def _sides(sets: MemberSets, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split a cluster: the new groups are those with a member of a set that was published in an earlier release."""
    part = sp.csr_array(sets.shared[inside][:, inside])
    rows = np.repeat(np.arange(len(inside)), np.diff(part.indptr))
    later = sets.first[inside][rows] > sets.first[inside][part.indices]
    newer = np.bincount(rows, weights=later, minlength=len(inside)) > 0
    return inside[~newer], inside[newer]


def _transversal(sets: MemberSets, old: np.ndarray, new: np.ndarray, k: int) -> bool:
    """Test that every new group has exactly one member of each old one and nobody else, and what the proof needs."""
    if len(old) < k or not len(new):
        return False
    crossing = sets.shared[old][:, new].toarray()
    among_old, among_new = sets.shared[old][:, old], sets.shared[new][:, new]
    left = int(sets.sizes[old].sum()) - len(old) * len(new)
    return (
        bool((crossing == 1).all())
        and among_old.nnz == 0
        and among_new.nnz == 0
        and bool((sets.sizes[new] == len(old)).all())
        and bool((sets.sizes[old] >= k).all())
        and (left == 0 or left >= k)
    )
