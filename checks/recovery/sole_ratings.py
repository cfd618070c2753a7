"""Read the ratings of published cells with a single contributor, all of them together, and guess them without the
cells."""

from dataclasses import dataclass, replace

import numpy as np

from checks.evidence.case import Case
from checks.recovery.gain import Gain
from checks.recovery.low_rank_fit import Fit, Tables, hide_cells, hold_tables, robust_fit
from checks.recovery.real_cells import RealCells
from checks.stats import Risk

BASELINE_RANKS = (8, 20)
LEAST_ROOM = 30.0  # expected misses of the baseline below which a gain would be noise


@dataclass(frozen=True)
class SoleRatings:
    """Hold published cells with a single contributor: their values, the true ratings, and how well these can be
    guessed."""

    case: Case
    groups: np.ndarray
    items: np.ndarray
    values: np.ndarray
    truth: np.ndarray
    baseline: float
    baseline_fits: tuple[Fit, ...] = ()  # of the release without these cells

    @classmethod
    def of(cls, case: Case, cells: RealCells, tables: Tables) -> "SoleRatings":
        """Collect the cells; the baseline is the better of item means and a fit from which they were hidden."""
        sole = np.flatnonzero((cells.number == 1) & cells.is_published)
        groups, items, truth = cells.groups[sole], cells.items[sole], cells.total[sole]
        found = cls(case, groups, items, _values_at(tables, groups, items), truth, 0.0)
        if not len(sole):
            return found
        shape = (case.release.n_groups, case.release.n_items)
        fits: list[Fit] = []
        rates = [found._count_right(guess) for guess in _guesses(case, cells, sole)]
        if len(sole) < case.release.cells:  # is there a rest to fit?
            rest = hold_tables(hide_cells(tables, groups, items))
            for rank in BASELINE_RANKS:
                fits.append(robust_fit(rest, shape, min(rank, min(shape) // 2), case.release.step))
                rates.append(found._count_right(fits[-1].cells(groups, items)))
        return replace(found, baseline=max(rates) / len(sole), baseline_fits=tuple(fits))

    def gains(self, fit: Fit, name: str) -> list[Gain]:
        """Return the best of three estimates: the value as it is, averaged with one prediction, averaged over the
        group."""
        if len(self.truth) * (1 - self.baseline) < LEAST_ROOM:
            return []
        fitted = fit.cells(self.groups, self.items)
        rest = self.values - fitted
        hits = max(self._count_right(fitted + h * rest) for h in (1, 2, self.case.members[self.groups]))
        return [
            Gain(
                "ratings",
                f"{name}, {len(self.truth):,} sole ones",
                Risk(hits, len(self.truth), self.baseline),
            )
        ]

    def _count_right(self, guess: np.ndarray) -> int:
        inside = np.clip(guess, self.case.release.low, self.case.release.high)
        return int((np.abs(inside - self.truth) <= self.case.truth.half_level + 1e-4).sum())


def _values_at(tables: Tables, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
    values = np.empty(len(groups), dtype=np.float32)
    for start, table in tables():
        part = slice(*np.searchsorted(groups, [start, start + len(table)]))
        values[part] = table[groups[part] - start, items[part]]
    return values


def _guesses(case: Case, cells: RealCells, sole: np.ndarray) -> list[np.ndarray]:
    """Predict each of these cells from all other people's ratings, and from the contributor's other ratings."""
    users, items, own = cells.rater[sole], cells.items[sole], cells.total[sole]
    count, total = case.truth.item_totals
    overall = float(total.sum() / count.sum())
    item = _mean_without(count[items], total[items], own, overall)
    user = _mean_without(cells.rated[users], cells.rating_sums[users], own, overall)
    return [overall + item, overall + item + user]


def _mean_without(count: np.ndarray, total: np.ndarray, own: np.ndarray, overall: float) -> np.ndarray:
    """Return means without one of their ratings, less the overall mean; 0 where nothing else is left."""
    return np.where(count > 1, (total - own) / np.maximum(count - 1, 1) - overall, 0.0)
