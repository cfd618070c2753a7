"""Read the ratings of single contributors off the cells that deviate most from a fit: a few verbatim ratings among
millions of predictions.

An attacker who finds a cell far from what the rest of the release predicts reads the rating off it: as it is, or with
the prediction subtracted. Right is a value that rounds to the contributor's rating (checks/evidence/rating_levels.py).
The baseline is the best guess without that cell: the item's mean over everybody else, that and the person's level
elsewhere; and what the rest of the release suggests, by the item's mean with the group's level and by fits from which
all such cells were hidden. The latter are also read as the cell is: predictions are shrunk, so that twice their
distance from a mean is the better guess, of strangers too. (The fit that finds the flags is no fair guess: they are the
cells where it is wrong, and one that bends towards a few verbatim cells would excuse them.) Flags are the largest
residuals beside the group's own level: of all cells, of every group and of every person.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from checks.evidence.case import Case
from checks.evidence.groups import GroupBlock
from checks.evidence.rating_levels import RatingLevels, reads_as
from checks.recovery.gain import SMALL_HEADS, Gain, gain_of_few
from checks.recovery.low_rank_fit import Fit
from checks.recovery.outlying_cells import Fitted
from checks.stats import Tally, runs

KIND = "flagged ratings"
READINGS = ("as it is", "twice what is left over", "what is left over times the group")


@dataclass(frozen=True)
class _Sole:
    """Hold the published cells of a block that have one contributor, ordered by person."""

    groups: np.ndarray
    items: np.ndarray
    users: np.ndarray
    truth: np.ndarray
    values: np.ndarray
    means: list[np.ndarray]  # guesses from other ratings of the item and of the person
    hidden: list[np.ndarray]  # guesses from the rest of the release

    @classmethod
    def of(cls, case: Case, block: GroupBlock, table: np.ndarray, hidden: "HiddenFits") -> "_Sole":
        """Collect the cells; `table` holds what is published."""
        alone = np.flatnonzero((block.contributors.data == 1)[block.cells])
        groups, items = block.groups[block.cells[alone]], block.items[block.cells[alone]]
        values = table[groups - block.start, items]
        there = ~np.isnan(values)
        mean = case.truth.mean_of_others(block.items[block.cells], block.ratings)
        with_level = mean + _level_elsewhere(block.users, block.ratings - mean)
        alone, groups, items = alone[there], groups[there], items[there]
        return cls(
            groups,
            items,
            block.users[alone],
            block.ratings[alone],
            values[there],
            [mean[alone], with_level[alone]],
            list(hidden.guess(block.start, table, groups, items)),
        )


def _level_elsewhere(users: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return for every rating how far the person's other ratings lie above the items' means; 0 without any."""
    who, starts = runs(users)
    person, number = np.repeat(np.arange(len(who)), np.diff(starts)), np.diff(starts)
    total = np.bincount(person, above, minlength=len(who))
    return (total[person] - above) / np.maximum(number[person] - 1, 1)


@dataclass(frozen=True)
class HiddenFits:
    """Guess cells by the group's level and by fits of a release from which they were hidden; `fitted` computes the
    values of a block."""

    fits: Sequence[Fit]
    fitted: Fitted

    def __len__(self) -> int:
        return len(self.fits) + 1 if self.fits else 0

    def guess(
        self, start: int, table: np.ndarray, groups: np.ndarray, items: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yield each guess of these cells of a block, given what the block publishes elsewhere."""
        if not self.fits:
            return
        rest = table.copy()
        rest[groups - start, items] = np.nan
        level = levels_of_rows(
            rest, self.fits[0].mean[None, :]
        )  # robust fits leave out groups of unusual levels
        yield self.fits[0].mean[items] + level[groups - start]
        for fit in self.fits:
            yield self.fitted(fit, start, rest)[groups - start, items]


class FlaggedRatings:
    """Collect for every fit the single contributors' cells with the largest residuals, and for some fits those of every
    group and of every person."""

    def __init__(
        self,
        case: Case,
        number_of_fits: int,
        fits_of_everybody: Sequence[int],
        sizes: Sequence[int],
        hidden: HiddenFits,
    ) -> None:
        self._case, self._levels, self._sizes, self._hidden = case, RatingLevels.of(case.truth), sizes, hidden
        columns = (
            len(READINGS) * (1 + len(hidden)) + 2
        )  # what is right: readings, those of guesses, two means
        self._heads: list[np.ndarray] = [np.empty((0, 2 + columns))] * number_of_fits
        self._groups, self._people = (
            {number: np.zeros((len(sizes), columns + 1, many), np.int16) for number in fits_of_everybody}
            for many in (case.release.n_groups, case.truth.users)
        )
        self._blocks = case.group_blocks()
        self._sole: _Sole | None = None

    def begin(self, start: int, table: np.ndarray) -> None:
        """Collect the block's cells of single contributors; tables come in the blocks of the release."""
        block = next(self._blocks)
        if block.start != start:
            raise ValueError("the tables are not the release's blocks")
        self._sole = _Sole.of(self._case, block, table, self._hidden)

    def add(self, number: int, start: int, table: np.ndarray, fitted: np.ndarray) -> None:
        """Read the block's flagged cells."""
        sole = self._sole
        if sole is None or not len(sole.truth):
            return
        release = self._case.release
        level, row = levels_of_rows(table, fitted), sole.groups - start
        guess = np.clip(fitted[row, sole.items] + level[row], release.low, release.high)
        score = np.abs(sole.values - guess) * self._case.members[sole.groups]
        first = _largest(score, max(SMALL_HEADS))
        rows = np.column_stack([score[first], sole.groups[first], self._right(sole, first, guess).T])
        kept = np.concatenate([self._heads[number], rows])
        self._heads[number] = kept[np.argsort(-kept[:, 0], kind="stable")[: max(SMALL_HEADS)]]
        if number in self._people:
            self._count_own(self._groups[number], sole, sole.groups, guess, score)
            self._count_own(self._people[number], sole, sole.users, guess, score)

    def _right(self, sole: _Sole, some: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Mark for some cells which readings and which guesses are right (readings and guesses × cells)."""
        low, high = self._case.release.low, self._case.release.high
        fitted, truth = guess[some], sole.truth[some]
        scales = (1, 2, self._case.members[sole.groups[some]])
        read = [
            fitted + scale * (value[some] - fitted)
            for value in (sole.values, *sole.hidden)
            for scale in scales
        ]
        guessed = [one[some] for one in sole.means]
        return np.array([self._levels.same(np.clip(one, low, high), truth) for one in (*read, *guessed)])

    def _count_own(
        self, counts: np.ndarray, sole: _Sole, owner: np.ndarray, guess: np.ndarray, score: np.ndarray
    ) -> None:
        """Count per owner (a group or a person) and size the cells, and those each reading and each guess has right."""
        order, rank = _largest_of_runs(score, runs(owner)[1], max(self._sizes))
        release, levels = self._case.release, self._levels
        _count_right(
            (order, rank, owner, np.array(self._sizes)),
            (guess, sole.truth, np.array([sole.values, *sole.hidden], np.float64), np.array(sole.means)),
            self._case.members[sole.groups],
            (release.low, release.high, levels.lowest, levels.half, levels.has_levels),
            counts,
        )

    def gains(self, number: int, name: str) -> list[Gain]:
        """Return the gains of one fit: small heads, each reading, against the best guess."""
        found = []
        for size in SMALL_HEADS:
            head = self._heads[number][:size]
            if len(head) < size:
                continue
            read, guessed = np.split(head[:, 2:].T, [len(READINGS)])
            best = guessed[np.argmax(guessed.sum(axis=1))]
            for how, right in zip(READINGS, read, strict=True):
                gain = gain_of_few(KIND, f"{name}, {how}", head[:, 1], right, best)
                found += [gain] if gain else []
        return found

    def tallies(self) -> tuple[list[Tally], list[Tally]]:
        """Return every group's and every person's readings: the value as it is, and with what is left over times the
        group."""
        groups, people = (
            [
                Tally(counts[reading], counts[-1], counts[len(READINGS) : -1].max(axis=0))
                for of_sizes in collected.values()
                for counts in of_sizes.astype(np.float64)
                for reading in (0, 2)
            ]
            for collected in (self._groups, self._people)
        )
        return groups, people


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def levels_of_rows(table, fitted):  # type: ignore[no-untyped-def]
    """Return the mean of each row above its fitted values (or above one row of these for all), over the cells that are
    published; 0 without any."""
    levels = np.zeros(len(table))
    for row in range(len(table)):
        own, guess = table[row], fitted[min(row, len(fitted) - 1)]
        total, number = 0.0, 0
        for item in range(len(own)):
            above = own[item] - guess[item]
            there = above == above  # NaN where nothing is published
            total += float(above) if there else 0.0
            number += there
        levels[row] = total / max(number, 1)
    return levels


@njit(cache=True, nogil=True)
def _count_right(chosen, guesses, members, scale, counts):  # type: ignore[no-untyped-def]
    """Add to the counts (sizes × columns × owners) which readings and which guesses of the chosen cells are right, and
    the cells themselves, as `FlaggedRatings._right` marks them."""
    order, rank, owner, sizes = chosen
    fitted, truth, values, means = guesses
    low, high, lowest, half, has_levels = scale
    right = np.empty(counts.shape[1], np.bool_)
    right[-1] = True
    for n in range(len(order)):
        cell = order[n]
        column = 0
        for kind in range(len(values)):
            rest = values[kind, cell] - fitted[cell]
            for times in (1, 2, members[cell]):
                read = min(max(fitted[cell] + times * rest, low), high)
                right[column] = reads_as(read, truth[cell], 1, lowest, half, has_levels)
                column += 1
        for kind in range(len(means)):
            read = min(max(means[kind, cell], low), high)
            right[column] = reads_as(read, truth[cell], 1, lowest, half, has_levels)
            column += 1
        for size in range(len(sizes)):
            if rank[n] < sizes[size]:
                for column in range(len(right)):
                    counts[size, column, owner[cell]] += right[column]


def _largest(score: np.ndarray, size: int) -> np.ndarray:
    """Return where the largest scores are, best first; of equal ones the first counts more."""
    among = np.arange(len(score))
    if len(score) > size:
        among = np.flatnonzero(score >= np.partition(score, len(score) - size)[len(score) - size])
    return among[np.argsort(-score[among], kind="stable")[:size]]


@njit(cache=True, nogil=True)
def _largest_of_runs(score, starts, size):  # type: ignore[no-untyped-def]
    """Return where the largest scores of each run are, run by run and best first, of equal ones the first; and the rank
    of each within its run."""
    number = 0
    for run in range(len(starts) - 1):
        number += min(size, starts[run + 1] - starts[run])
    order, rank = np.empty(number, np.int64), np.empty(number, np.int64)
    begin = 0
    for run in range(len(starts) - 1):
        count = 0
        for place in range(starts[run], starts[run + 1]):
            if count == size and not score[place] > score[order[begin + size - 1]]:
                continue
            at = begin + min(count, size - 1)
            while at > begin and score[order[at - 1]] < score[place]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = place
            count = min(count + 1, size)
        for at in range(count):
            rank[begin + at] = at
        begin += count
    return order, rank
