"""Compare groups of several releases by their members, and people by the groups they were in.

Two persons are *alike* when in every release they are in the same group or both absent. Every published sum is then a
sum over classes of alike persons, so no linear combination of all releases can isolate fewer people than the smallest
class has.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from checks.evidence.seeds import seeded


@dataclass(frozen=True)
class MemberSets:
    """Hold the different sets of people that were published as groups, numbered by first publication.

    `numbers[r]` are the group numbers of release r, ascending, and `of_group[r]` their sets; `first[s]` is the release
    that published set s first, `members` has 1 where a person (column) is in a set (row).
    """

    numbers: list[np.ndarray]
    of_group: list[np.ndarray]
    first: np.ndarray
    members: sp.csr_array

    @classmethod
    def of(cls, persons: list[np.ndarray], groups: list[np.ndarray], people: int) -> "MemberSets":
        """Find equal sets by the sum of random numbers of their members: 128 bits, so none is equal by chance."""
        marks = seeded("member sets").integers(0, 2**63, (people, 2), dtype=np.uint64) * np.uint64(2)
        marks |= np.uint64(1)
        numbers, sums, places = [], [], []
        for own, group in zip(persons, groups, strict=True):
            order = np.argsort(group, kind="stable")
            found, starts = np.unique(group[order], return_index=True)
            numbers.append(found)
            sums.append(np.add.reduceat(marks[own[order]], starts, axis=0) if len(found) else marks[:0])
            places.append(np.split(own[order], starts[1:]) if len(found) else [])
        release = np.repeat(np.arange(len(sums)), [len(own) for own in sums])
        _, first, which = np.unique(np.concatenate(sums), axis=0, return_index=True, return_inverse=True)
        by_age = np.argsort(first, kind="stable")
        renumbered = np.empty(len(first), np.int64)
        renumbered[by_age] = np.arange(len(first))
        of_all = renumbered[which.ravel()]
        flat = [group for own in places for group in own]
        chosen = [flat[at] for at in first[by_age]]
        indptr = np.concatenate([[0], np.cumsum([len(own) for own in chosen])]).astype(np.int64)
        indices = np.concatenate([np.zeros(0, np.int64), *chosen])
        members = sp.csr_array(
            (np.ones(len(indices), np.int32), indices, indptr), shape=(len(chosen), people)
        )
        cuts = np.cumsum([len(own) for own in numbers])[:-1]
        return cls(numbers, np.split(of_all, cuts), release[first[by_age]], members)

    @property
    def sizes(self) -> np.ndarray:
        """Number of people in each set."""
        return np.diff(self.members.indptr)

    @cached_property
    def of_person(self) -> sp.csr_array:
        """The sets of each person: a row per person."""
        return sp.csr_array(self.members.T.tocsr())

    @cached_property
    def alike(self) -> np.ndarray:
        """For every person the number of persons who are in exactly the same sets.

        A release lists a set whole or not at all, so who is in the same sets is in the same groups of every release.
        """
        marks = seeded("classes").integers(0, 2**62, (self.members.shape[0], 2), dtype=np.int64)
        table = self.of_person
        sums = np.stack([table @ marks[:, side] for side in (0, 1)], axis=1)
        _, which, count = np.unique(sums, axis=0, return_inverse=True, return_counts=True)
        return count[which.ravel()]

    @cached_property
    def shared(self) -> sp.csr_array:
        """How many people each two sets have in common; sets of people who were in one set only are alone."""
        movers = np.diff(self.of_person.indptr) > 1
        kept = self.members[:, np.flatnonzero(movers)]
        common = sp.csr_array(kept @ kept.T)
        common.setdiag(0)
        common.eliminate_zeros()
        return common
