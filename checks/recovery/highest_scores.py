"""Keep the cells with the highest scores, of a release and of each of its groups, in one pass over each block.

A release of Netflix's size has a thousand million candidate cells, and each is scored in thirty ways. Nearly all scores
are far too low, so what counts is that a cell costs one comparison: with the lowest score that its group keeps (or the
whole release, where groups keep none). Of equal scores the first in the release is kept.
"""

from dataclasses import dataclass, field

import numpy as np
from numba import njit

NOTHING = -1


@dataclass
class HighestScores:
    """Collect the `size` highest scores of a release, and the `of_each` highest of every group (0: none)."""

    size: int
    of_each: int
    _keys: np.ndarray = field(init=False)
    _scores: np.ndarray = field(init=False)
    _kept: np.ndarray = field(init=False)  # how many there are so far
    _groups: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._keys, self._scores = np.empty(self.size, np.int64), np.empty(self.size, np.float32)
        self._kept = np.zeros(1, np.int64)

    def add(
        self,
        scores: np.ndarray,
        closed: np.ndarray,
        first_keys: np.ndarray,
        items: np.ndarray,
        *,
        either_sign: bool,
    ) -> None:
        """Add a block of scores (groups × items), but for closed cells; `first_keys` are the groups' numbers · number
        of all items. Scores of either sign count by their size."""
        best = np.full((len(scores), self.of_each), NOTHING, np.int64)
        of_groups = np.empty((len(scores), self.of_each), np.float32)
        kept = (self._keys, self._scores, self._kept)
        _add(scores, closed, first_keys, items.astype(np.int64), either_sign, kept, best, of_groups)
        if self.of_each:
            self._groups.append(best)

    @property
    def keys(self) -> np.ndarray:
        """The keys (group · items + item) of the release's highest scores, best first."""
        kept = int(self._kept[0])
        return self._keys[:kept][np.lexsort((self._keys[:kept], -self._scores[:kept]))]

    @property
    def of_groups(self) -> np.ndarray:
        """The keys of each group's highest scores, best first (groups × `of_each`); −1 where there are fewer."""
        return np.concatenate(self._groups) if self._groups else np.empty((0, self.of_each), np.int64)


@njit(cache=True, nogil=True)
def _add(scores, closed, first_keys, items, either_sign, kept, best, of_groups):  # type: ignore[no-untyped-def]
    keys, values, number = kept
    size, of_each = len(keys), best.shape[1]
    for row in range(len(scores)):
        own, shut, first = scores[row], closed[row], first_keys[row]
        count = 0
        least_own = np.float32(np.inf) if of_each == 0 else np.float32(-np.inf)
        least = values[0] if number[0] == size else np.float32(-np.inf)
        enough = min(least, least_own)
        for column in range(len(own)):
            score = abs(own[column]) if either_sign else own[column]
            if not score > enough or shut[column]:
                continue
            if score > least:
                _push(keys, values, number, first + items[column], score)
                least = values[0] if number[0] == size else np.float32(-np.inf)
            if score > least_own:
                place = min(count, of_each - 1)
                while place > 0 and of_groups[row, place - 1] < score:
                    of_groups[row, place], best[row, place] = of_groups[row, place - 1], best[row, place - 1]
                    place -= 1
                of_groups[row, place], best[row, place] = score, first + items[column]
                count = min(count + 1, of_each)
                if count == of_each:
                    least_own = of_groups[row, of_each - 1]
            enough = min(least, least_own)


@njit(cache=True, nogil=True)
def _push(keys, values, number, key, score):  # type: ignore[no-untyped-def]
    """Put a cell into the heap, whose first entry is the lowest score, and of equal ones the last key; a full heap
    loses that entry."""
    size = len(keys)
    if number[0] < size:
        at = number[0]
        number[0] += 1
        while at > 0:
            parent = (at - 1) // 2
            if values[parent] < score or (values[parent] == score and keys[parent] > key):
                break
            keys[at], values[at] = keys[parent], values[parent]
            at = parent
    else:
        at = 0
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            other = child + 1
            if other < size and (
                values[other] < values[child]
                or (values[other] == values[child] and keys[other] > keys[child])
            ):
                child = other
            if score < values[child] or (score == values[child] and key > keys[child]):
                break
            keys[at], values[at] = keys[child], values[child]
            at = child
    keys[at], values[at] = key, score
