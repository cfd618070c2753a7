"""Choose from the lists of a strategy: which items may be added to whom, how many, and which ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.kernels import candidate_items, item_similarity
from tasks.obfuscators import NO_ITEM, Chance, Request

_PEOPLE_AT_ONCE = 4096  # users whose cells are drawn together


@dataclass(frozen=True)
class Choice:
    """Hold a list of items for every class, and the positions of the own list that each user may receive."""

    lists: list[np.ndarray]
    labels: np.ndarray
    bits: candidate_items.Bits  # (people, words)

    @classmethod
    def of(
        cls,
        ratings: sp.csr_array,
        labels: np.ndarray,
        lists: Sequence[np.ndarray],
        request: Request | None = None,
    ) -> "Choice":
        """Find eligible items: not rated and, with `request`, similar to a rated one ([RFPP], section 5.1, rule 2)."""
        words = max((-(-len(items) // 64) for items in lists), default=0)
        bits = np.zeros((ratings.shape[0], words), np.uint64)
        for c, items in enumerate(lists):
            people = np.flatnonzero(labels == c)
            if not len(people) or not len(items):
                continue
            similar = None
            if request is not None:
                similar = item_similarity.find_similar(
                    ratings, items, request.threshold, request.similarity, request.quotient
                )
            found = candidate_items.find_eligible(sp.csr_array(ratings[people]), items, similar)
            bits[people, : found.shape[1]] = found
        return cls(list(lists), labels, bits)

    def equal_quotas(self, total: int, chance: Chance) -> np.ndarray:
        """Return the same quota for all users, up to one."""
        return candidate_items.allocate_quotas(
            total, candidate_items.count_eligible(self.bits), self._draws(chance)
        )

    def proportional_quotas(self, total: int, chance: Chance, counts: np.ndarray) -> np.ndarray:
        """Return quotas in proportion to each user's number of ratings."""
        return candidate_items.allocate_quotas(
            total, candidate_items.count_eligible(self.bits), self._draws(chance), counts
        )

    def _draws(self, chance: Chance) -> np.ndarray:
        people = np.arange(len(self.labels))
        return chance("one more", people, np.full_like(people, NO_ITEM))

    def take_preferred(
        self, levels: Sequence[np.ndarray], quota: np.ndarray, chance: Chance
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take the first positions of each user's list, ties at random; return users and items."""
        rows, items = [], []
        for c, (list_, level) in enumerate(zip(self.lists, levels, strict=True)):
            people = np.flatnonzero(self.labels == c)
            sure_row, sure, tied_row, tied = candidate_items.take_preferred(
                self.bits[people], level, quota[people]
            )
            left = quota[people] - np.bincount(sure_row, minlength=len(people))
            drawn = chance("tie", people[tied_row], list_[tied])
            kept = candidate_items.mark_lowest(tied_row, drawn, left)
            rows += [people[sure_row], people[tied_row[kept]]]
            items += [list_[sure], list_[tied[kept]]]
        return np.concatenate(rows), np.concatenate(items)

    def draw(
        self, quota: np.ndarray, chance: Chance, strengths: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw items from each user's list without replacement, uniformly or in proportion to `strengths`."""
        rows, items = [], []
        for c, list_ in enumerate(self.lists):
            everyone = np.flatnonzero(self.labels == c)
            for start in range(0, len(everyone), _PEOPLE_AT_ONCE):
                people = everyone[start : start + _PEOPLE_AT_ONCE]
                row, place = candidate_items.list_eligible(self.bits[people])
                # The first of exponential waiting times is a draw in proportion to the rates [Efraimidis2006].
                waiting = -np.log(chance("draw", people[row], list_[place]))
                if strengths is not None:
                    waiting /= strengths[c][place]
                kept = candidate_items.mark_lowest(row, waiting, quota[people])
                rows.append(people[row[kept]])
                items.append(list_[place[kept]])
        return np.concatenate(rows), np.concatenate(items)


def levels_of(preference: np.ndarray) -> np.ndarray:
    """Return which positions of a list are equally preferred, as numbers that rise down the list."""
    steps = np.concatenate([[0], np.cumsum(preference[1:] != preference[:-1])])
    return steps[: len(preference)].astype(np.int64)
