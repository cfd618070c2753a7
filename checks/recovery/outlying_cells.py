"""Find the cells of a release that deviate most from a fit, in one pass that holds only these cells and a block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from checks.evidence.case import Case
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.low_rank_fit import Fit, Tables

Fitted = Callable[
    [Fit, int, np.ndarray], np.ndarray
]  # a fit's values for a block: its first group, its table
EDGE_SHARE = 0.075  # of the scale at each end, where clipping looks like a residual


@dataclass(frozen=True)
class CellFilter:
    """Describe which cells may be flagged: of these items, where activity · popularity is at most `limit`; `size` of
    them."""

    items: np.ndarray
    limit: float
    size: int


@dataclass
class _Largest:
    """Keep the cells with the largest scores so far; of equal ones the first in the release.

    They are sorted only when as many have arrived as are wanted. `least` is the score a cell needs to be among them.
    """

    size: int
    least: float = 0.0
    _parts: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    _waiting: int = 0

    def add(self, keys: np.ndarray, scores: np.ndarray) -> None:
        """Add further cells, of which those below `least` may be missing."""
        self._parts.append((keys, scores))
        self._waiting += len(keys)
        if self._waiting >= self.size:
            self._sort()

    def keys(self) -> np.ndarray:
        """Return the keys of the kept cells, largest score first."""
        if self._parts:
            self._sort()
        return self._parts[0][0] if self._parts else np.empty(0, np.int64)

    def _sort(self) -> None:
        keys, scores = map(np.concatenate, zip(*self._parts, strict=True))
        if len(scores) > self.size:
            near = scores >= np.partition(scores, -self.size)[-self.size]
            keys, scores = keys[near], scores[near]
        order = np.lexsort((keys, -scores))[: self.size]
        self._parts, self._waiting = [(keys[order], scores[order])], 0
        if len(order) == self.size:
            self.least = float(scores[order[-1]])


def largest_residuals(
    case: Case,
    tables: Tables,
    fits: Sequence[Fit],
    fitted: Fitted,
    kinds: Sequence[CellFilter],
    chance: CellBaseline,
) -> list[list[np.ndarray]]:
    """Return for every fit and filter the keys (group · items + item) of the cells with the largest residual × group
    size."""
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
    return [[head.keys() for head in heads] for heads in found]


@njit(cache=True, nogil=True)
def _candidates(table, fitted, members, scale, least):  # type: ignore[no-untyped-def]
    """Return the keys (row · items + item) and scores of the cells inside the scale whose residual × group size is at
    least this."""
    centre, most, most_fitted = scale
    place, scores = np.empty(table.size, np.int64), np.empty(table.size, np.float32)
    found = 0
    for row in range(len(table)):
        own, guess, size = table[row], fitted[row], members[row]
        enough = 0
        for item in range(
            len(own)
        ):  # most rows have none: without a branch several cells are processed at a time
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
