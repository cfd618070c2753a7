"""Model how often a cell of a rare item holds a real rating anyway, by popularity and by activity *among rare items*.

Some people rate what nearly nobody else rates: in MovieLens 100K one person rated half of all rare items. Activity over
all items explains a fifth of that, so every flag in that person's group would look like a recovered link. That a group
rates many rare items is true of at least k people together and is not judged; which ones is.
"""

from dataclasses import dataclass

import numpy as np

from checks.evidence.case import Case
from checks.recovery.cell_baseline import ROUNDS, CellBaseline, newton_step
from checks.recovery.low_rank_fit import Tables
from checks.recovery.real_cells import RealCells


def fit_rare_baseline(
    part: Case, cells: RealCells, tables: Tables, items: np.ndarray, chance: CellBaseline
) -> CellBaseline:
    """Fit activity and popularity to both margins of the published cells of these items."""
    groups = part.release.n_groups
    column = np.full(part.release.n_items, -1)
    column[items] = np.arange(len(items))
    rare = cells.is_published & (column[cells.items] >= 0)
    by_group = np.bincount(cells.groups[rare], minlength=groups)
    by_item = np.bincount(column[cells.items[rare]], minlength=len(items))
    popularity = -np.log1p(-np.minimum(chance.share[items], 1 - 1e-6))
    if part.release.complete:
        activity, popularity = _fit_complete(by_group, by_item, popularity)
    else:
        published = [~np.isnan(table[:, items]) for _, table in tables()]
        activity, popularity = _fit_with_gaps(by_group, by_item, popularity, published)
    return _over_all_items(part, activity, popularity, items, chance)


def _fit_with_gaps(
    by_group: np.ndarray, by_item: np.ndarray, popularity: np.ndarray, published: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return activity and popularity where some cells are not published, given as blocks of groups × items."""
    activity = np.ones(len(by_group))
    for turn in range(ROUNDS):
        rows, columns = np.zeros((2, len(by_group))), np.zeros((2, len(by_item)))
        start = 0
        for there in published:
            block = slice(start, start + len(there))
            start = block.stop
            own = activity[block]
            absent = np.outer(-own, popularity)
            np.exp(absent, out=absent)
            absent *= there
            if turn % 2:
                columns[0] += there.sum(axis=0) - absent.sum(axis=0)
                columns[1] += own @ absent
            else:
                rows[0, block] = there.sum(axis=1) - absent.sum(axis=1)
                rows[1, block] = absent @ popularity
        if turn % 2:
            popularity = newton_step(popularity, by_item, *columns)
        else:
            activity = newton_step(activity, by_group, *rows)
    return activity, popularity


def _fit_complete(
    by_group: np.ndarray, by_item: np.ndarray, popularity: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return activity and popularity where every cell is published: groups with as many real ratings then have the same
    activity and items the same popularity, and each is computed once for all that are alike."""
    groups, items = _Alike.of(by_group), _Alike.of(by_item, popularity)
    (wanted_of_group,), (wanted_of_item, popularity) = groups.values, items.values
    activity = np.ones(len(wanted_of_group))
    for turn in range(ROUNDS):
        absent = np.exp(np.outer(-activity, popularity))
        if turn % 2:
            expected = len(by_group) - groups.number @ absent
            slope = (groups.number * activity) @ absent
            popularity = newton_step(popularity, wanted_of_item, expected, slope)
        else:
            activity = newton_step(
                activity, wanted_of_group, *_expected_of_groups(absent, items.number, popularity)
            )
    return activity[groups.kind], popularity[items.kind]


def _expected_of_groups(
    absent: np.ndarray, number: np.ndarray, popularity: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected real cells of groups that publish every item, with their slope; `number` counts the items of
    each popularity."""
    return number.sum() - absent @ number, absent @ (number * popularity)


@dataclass(frozen=True)
class _Alike:
    """Hold the different values of groups or items, how many have each, and which each one has."""

    values: np.ndarray  # a row for each of the given columns
    number: np.ndarray
    kind: np.ndarray

    @classmethod
    def of(cls, *columns: np.ndarray) -> "_Alike":
        """Find those that are alike in all columns."""
        values, kind, number = np.unique(
            np.stack(columns).astype(np.float64), axis=1, return_inverse=True, return_counts=True
        )
        return cls(values, number.astype(np.float64), kind.ravel())


def extend_rare_baseline(case: Case, part: CellBaseline, items: np.ndarray) -> CellBaseline:
    """Return the model of the whole release, given the popularity that a sample of its groups has."""
    wanted, popularity = np.zeros(case.release.n_items, bool), part.popularity[items]
    wanted[items] = True
    activity = np.ones(case.release.n_groups)
    real = np.zeros(case.release.n_groups)
    complete = case.release.complete
    for block in case.group_blocks():
        there = wanted[block.items] if complete else ~np.isnan(block.published) & wanted[block.items]
        rows = block.profiles.rows_slice
        real[rows] = np.bincount(block.groups[there] - block.start, minlength=block.rows)
        if not complete:
            held = block.profiles.pattern()[:, items].toarray() > 0
            activity[rows] = _activity_with_gaps(real[rows], popularity, held)
    if complete:
        activity = _activity_of_complete(real, popularity)
    return _over_all_items(case, activity, popularity, items, part)


def _activity_with_gaps(real: np.ndarray, popularity: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return the activity of groups that publish these of their cells (groups × items)."""
    own = np.ones(len(real))
    for _ in range(ROUNDS // 2):
        absent = np.exp(np.outer(-own, popularity)) * held
        own = newton_step(own, real, held.sum(axis=1) - absent.sum(axis=1), absent @ popularity)
    return own


def _activity_of_complete(real: np.ndarray, popularity: np.ndarray) -> np.ndarray:
    """Return the activity of groups that publish all of these items."""
    groups, items = _Alike.of(real), _Alike.of(popularity)
    own = np.ones(len(groups.number))
    for _ in range(ROUNDS // 2):
        absent = np.exp(np.outer(-own, items.values[0]))
        own = newton_step(own, groups.values[0], *_expected_of_groups(absent, items.number, items.values[0]))
    return own[groups.kind]


def _over_all_items(
    case: Case, activity: np.ndarray, popularity: np.ndarray, items: np.ndarray, chance: CellBaseline
) -> CellBaseline:
    """Return the model with a column for every item; other items than these have no chance at all."""
    whole = np.zeros(case.release.n_items)
    whole[items] = popularity
    return CellBaseline(activity, whole, chance.share, chance.open_cells, chance.overall)
