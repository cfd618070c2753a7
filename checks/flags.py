"""The cells of a release that stand out most from a fit, in one walk that holds no more than these and a block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from checks.case import Case
from checks.chance import Chance
from checks.lowrank import Fit, Tables

Fitted = Callable[
    [Fit, int, np.ndarray], np.ndarray
]  # a fit's values for a block: its first group, its table
EDGE_SHARE = 0.075  # of the scale at each end, where clipping looks like a residual


@dataclass(frozen=True)
class Wanted:
    """Which cells may be flagged: of these items, where activity · popularity is at most `limit`; `size` of them."""

    items: np.ndarray
    limit: float
    size: int


@dataclass
class _Largest:
    """The cells with the largest scores so far, largest first; of equal ones the first in the release."""

    size: int
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    scores: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))

    @property
    def least(self) -> float:
        """What a cell needs to be among them."""
        return float(self.scores[-1]) if len(self.scores) == self.size else 0.0

    def add(self, keys: np.ndarray, scores: np.ndarray) -> None:
        if len(scores) > self.size:
            near = scores >= np.partition(scores, -self.size)[-self.size]
            keys, scores = keys[near], scores[near]
        keys, scores = np.concatenate([self.keys, keys]), np.concatenate([self.scores, scores])
        order = np.lexsort((keys, -scores))[: self.size]
        self.keys, self.scores = keys[order], scores[order]


def standing_out(
    case: Case,
    tables: Tables,
    fits: Sequence[Fit],
    fitted: Fitted,
    kinds: Sequence[Wanted],
    chance: Chance,
) -> list[list[np.ndarray]]:
    """For every fit and kind: keys (group · items + item) of the cells with the largest residual × group size."""
    found = [[_Largest(kind.size) for kind in kinds] for _ in fits]
    half = (case.release.high - case.release.low) / 2
    edge = EDGE_SHARE * 2 * half
    scale = np.array([case.release.low + half, half - edge, half - edge * 2 / 3], dtype=np.float32)
    popularity = chance.popularity
    for start, table in tables():
        rows = slice(start, start + len(table))
        members, activity = case.members[rows].astype(np.float32), chance.activity[rows]
        for fit, heads in zip(fits, found, strict=True):
            lowest = np.float32(min((head.least for head in heads if head.size), default=np.inf))
            place, scores = _candidates(table, fitted(fit, start, table), members, scale, lowest)
            groups, items = np.divmod(place, case.release.n_items)
            likely = activity[groups] * popularity[items]
            for kind, head in zip(kinds, heads, strict=True):
                if head.size:
                    fits_in = (scores >= head.least) & kind.items[items] & (likely <= kind.limit)
                    head.add(place[fits_in] + start * case.release.n_items, scores[fits_in])
    return [[head.keys for head in heads] for heads in found]


@njit(cache=True, nogil=True)
def _candidates(table, fitted, members, scale, least):  # type: ignore[no-untyped-def]
    """Cells inside the scale with residual × group size of at least this: where (row · items + item), and how large."""
    centre, most, most_fitted = scale
    place, scores = np.empty(table.size, np.int64), np.empty(table.size, np.float32)
    found = 0
    for row in range(len(table)):
        own, guess, size = table[row], fitted[row], members[row]
        enough = 0
        for item in range(len(own)):  # most rows have none: without a branch this is several cells at a time
            enough += abs(own[item] - guess[item]) * size >= least  # False where nothing is published
        if not enough:
            continue
        for item in range(len(own)):
            score = abs(own[item] - guess[item]) * size
            inside = abs(own[item] - centre) <= most and abs(guess[item] - centre) <= most_fitted
            if inside and score >= least:
                place[found], scores[found] = row * len(own) + item, score
                found += 1
    return place[:found].copy(), scores[:found].copy()
