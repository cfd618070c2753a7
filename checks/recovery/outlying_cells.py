"""Find the cells of a release that deviate most from a fit, in one pass that holds only these cells and a block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numba import njit

from checks.evidence.case import Case
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.low_rank_fit import Fit, Tables

Fitted = Callable[
    [Fit, int, np.ndarray], np.ndarray
]  # a fit's values for a block: its first group, its table
EDGE_SHARE = 0.075  # of the scale at each end, where clipping looks like a residual
FITTED_EDGE_SHARE = EDGE_SHARE * 2 / 3
AT_ONCE = 250_000  # cells


class Collector(Protocol):
    """Describe what gathers cells while a release is compared with fits, block by block."""

    def begin(self, start: int, table: np.ndarray) -> None:
        """Begin a block of groups."""

    def add(self, number: int, start: int, table: np.ndarray, fitted: np.ndarray) -> None:
        """Add what this fit (its number) leaves over in the block."""


def compare_with_fits(
    tables: Tables, fits: Sequence[Fit], fitted: Fitted, collectors: Sequence[Collector]
) -> None:
    """Compare every block with every fit once, for all collectors."""
    for start, table in tables():
        for collector in collectors:
            collector.begin(start, table)
        for number, fit in enumerate(fits):
            values = fitted(fit, start, table)
            for collector in collectors:
                collector.add(number, start, table, values)


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

    The others are dropped when as many have arrived as are wanted. `least` is the score a cell needs to be among them.
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
            self._drop()

    def keys(self) -> np.ndarray:
        """Return the keys of the kept cells, largest score first."""
        if not self._parts:
            return np.empty(0, np.int64)
        self._drop()
        keys, scores = self._parts[0]
        return keys[self._first(keys, scores)]

    def _drop(self) -> None:
        keys, scores = map(np.concatenate, zip(*self._parts, strict=True))
        if len(scores) > self.size:
            self.least = float(np.partition(scores, -self.size)[-self.size])
            near = np.flatnonzero(scores >= self.least)
            if len(near) > 2 * self.size:  # many equal ones
                near = near[self._first(keys[near], scores[near])]
            keys, scores = keys[near], scores[near]
        self._parts, self._waiting = [(keys, scores)], 0

    def _first(self, keys: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return where the wanted cells are, largest score first."""
        return np.lexsort((keys, -scores))[: self.size]


class LargestResiduals:
    """Collect for every fit and filter the cells of the release with the largest residual × group size."""

    def __init__(
        self, case: Case, chance: CellBaseline, kinds: Sequence[CellFilter], number_of_fits: int
    ) -> None:
        self._case, self._chance, self._kinds = case, chance, kinds
        self._found = [[_Largest(kind.size) for kind in kinds] for _ in range(number_of_fits)]

    def begin(self, start: int, table: np.ndarray) -> None:
        """Begin a block; nothing is needed."""

    def add(self, number: int, start: int, table: np.ndarray, fitted: np.ndarray) -> None:
        """Merge the block's largest residuals with those kept so far, some groups at a time: after the first of them it
        is known which cells are far too small."""
        step = max(1, AT_ONCE // max(1, table.shape[1]))
        for first in range(0, len(table), step):
            part = slice(first, first + step)
            self._add(self._found[number], start + first, table[part], fitted[part])

    def _add(self, heads: list[_Largest], start: int, table: np.ndarray, fitted: np.ndarray) -> None:
        n_items, rows = self._case.release.n_items, slice(start, start + len(table))
        members = self._case.members[rows].astype(np.float32)
        lowest = np.float32(min((head.least for head in heads if head.size), default=np.inf))
        place, scores = _candidates(table, fitted, members, _scale(self._case), lowest)
        groups, items = np.divmod(place, n_items)
        likely = self._chance.activity[rows][groups] * self._chance.popularity[items]
        for kind, head in zip(self._kinds, heads, strict=True):
            if head.size:
                fits_in = (scores >= head.least) & kind.items[items] & (likely <= kind.limit)
                head.add(place[fits_in] + start * n_items, scores[fits_in])

    def keys(self) -> list[list[np.ndarray]]:
        """Return for every fit and filter the keys (group · items + item), largest residual first."""
        return [[head.keys() for head in heads] for heads in self._found]


class LargestOfGroups:
    """Collect for some fits the cells of every group with the largest residuals, where activity · popularity is at most
    `limit`."""

    def __init__(
        self, case: Case, chance: CellBaseline, numbers_of_fits: Sequence[int], size: int, limit: float
    ) -> None:
        self._case, self._chance, self._limit = case, chance, limit
        shape = (case.release.n_groups, size)
        self.keys = {number: np.full(shape, -1, np.int64) for number in numbers_of_fits}

    def begin(self, start: int, table: np.ndarray) -> None:
        """Begin a block; nothing is needed."""

    def add(self, number: int, start: int, table: np.ndarray, fitted: np.ndarray) -> None:
        """Take each group's largest residuals; a group is in one block."""
        if number not in self.keys:
            return
        rows = slice(start, start + len(table))
        best = self.keys[number][rows]
        limits = (self._limit / np.maximum(self._chance.activity[rows], 1e-12)).astype(np.float64)
        _largest_of_rows(table, fitted, _scale(self._case), limits, self._chance.popularity, best)
        numbers = np.arange(start, start + len(table), dtype=np.int64)[:, None] * self._case.release.n_items
        best += np.where(best >= 0, numbers, 0)


def _scale(case: Case) -> np.ndarray:
    """Return the centre of the rating scale, and how far from it a value and a fitted value may lie."""
    half = (case.release.high - case.release.low) / 2
    inside, inside_fitted = (half - share * 2 * half for share in (EDGE_SHARE, FITTED_EDGE_SHARE))
    return np.array([case.release.low + half, inside, inside_fitted], dtype=np.float32)


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


@njit(cache=True, nogil=True)
def _largest_of_rows(table, fitted, scale, limits, popularity, best):  # type: ignore[no-untyped-def]
    """Write into each row of `best` the items with the largest residuals, largest first."""
    centre, _, most_fitted = scale
    size = best.shape[1]
    kept = np.empty(size, np.float32)
    for row in range(len(table)):
        own, guess = table[row], fitted[row]
        count = 0
        for item in range(len(own)):
            score = abs(own[item] - guess[item])
            if not score > 0 or (count == size and score <= kept[count - 1]):  # NaN: nothing is published
                continue
            if abs(guess[item] - centre) > most_fitted or popularity[item] > limits[row]:
                continue
            place = min(count, size - 1)
            while place > 0 and kept[place - 1] < score:
                kept[place], best[row, place] = kept[place - 1], best[row, place - 1]
                place -= 1
            kept[place], best[row, place] = score, item
            count = min(count + 1, size)
