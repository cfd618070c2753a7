"""How strategies choose from their lists: what may be added to whom, how many, which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.kernels import additions, item_similarity
from tasks.obfuscators import NO_ITEM, Chance, Wanted

_PEOPLE_AT_ONCE = 4096  # whose cells are drawn together


@dataclass(frozen=True)
class Choice:
    """A list of items for every class, and which places of the own list each person may be given."""

    lists: list[np.ndarray]
    labels: np.ndarray
    bits: additions.Bits  # (people, words)

    @classmethod
    def of(
        cls,
        ratings: sp.csr_array,
        labels: np.ndarray,
        lists: Sequence[np.ndarray],
        wanted: Wanted | None = None,
    ) -> "Choice":
        """What nobody rated yet and, with `wanted`, is similar enough to something rated (rule 2 of section 5.1)."""
        words = max((-(-len(items) // 64) for items in lists), default=0)
        bits = np.zeros((ratings.shape[0], words), np.uint64)
        for c, items in enumerate(lists):
            people = np.flatnonzero(labels == c)
            if not len(people) or not len(items):
                continue
            similar = None
            if wanted is not None:
                similar = item_similarity.similar(
                    ratings, items, wanted.threshold, wanted.similarity, wanted.quotient
                )
            found = additions.eligible(sp.csr_array(ratings[people]), items, similar)
            bits[people, : found.shape[1]] = found
        return cls(list(lists), labels, bits)

    def equal_quotas(self, total: int, chance: Chance) -> np.ndarray:
        """As many for everybody, up to one."""
        return additions.quotas(total, additions.count(self.bits), self._draws(chance))

    def proportional_quotas(self, total: int, chance: Chance, counts: np.ndarray) -> np.ndarray:
        """As many as everybody's own ratings ask for."""
        return additions.quotas(total, additions.count(self.bits), self._draws(chance), counts)

    def _draws(self, chance: Chance) -> np.ndarray:
        people = np.arange(len(self.labels))
        return chance("one more", people, np.full_like(people, NO_ITEM))

    def first(
        self, levels: Sequence[np.ndarray], quota: np.ndarray, chance: Chance
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first places of everybody's list, equal ones by chance: people and items."""
        rows, items = [], []
        for c, (list_, level) in enumerate(zip(self.lists, levels, strict=True)):
            people = np.flatnonzero(self.labels == c)
            sure_row, sure, tied_row, tied = additions.first(self.bits[people], level, quota[people])
            left = quota[people] - np.bincount(sure_row, minlength=len(people))
            drawn = chance("tie", people[tied_row], list_[tied])
            kept = additions.lowest(tied_row, drawn, left)
            rows += [people[sure_row], people[tied_row[kept]]]
            items += [list_[sure], list_[tied[kept]]]
        return np.concatenate(rows), np.concatenate(items)

    def drawn(
        self, quota: np.ndarray, chance: Chance, strengths: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Items drawn from everybody's list without replacement, all alike or in proportion to `strengths`."""
        rows, items = [], []
        for c, list_ in enumerate(self.lists):
            everyone = np.flatnonzero(self.labels == c)
            for start in range(0, len(everyone), _PEOPLE_AT_ONCE):
                people = everyone[start : start + _PEOPLE_AT_ONCE]
                row, place = additions.cells(self.bits[people])
                # The first of exponential waiting times is a draw in proportion to the rates (Efraimidis, Spirakis).
                waiting = -np.log(chance("draw", people[row], list_[place]))
                if strengths is not None:
                    waiting /= strengths[c][place]
                kept = additions.lowest(row, waiting, quota[people])
                rows.append(people[row[kept]])
                items.append(list_[place[kept]])
        return np.concatenate(rows), np.concatenate(items)


def levels_of(preference: np.ndarray) -> np.ndarray:
    """Which places of a list are equally preferred, by numbers that go down the list."""
    steps = np.concatenate([[0], np.cumsum(preference[1:] != preference[:-1])])
    return steps[: len(preference)].astype(np.int64)
