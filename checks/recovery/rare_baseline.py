"""Model how often a cell of a rare item holds a real rating anyway, by popularity and by activity *among rare items*.

Some people rate what nearly nobody else rates: in MovieLens 100K one person rated half of all rare items. Activity over
all items explains a fifth of that, so every flag in that person's group would look like a recovered link. That a group
rates many rare items is true of at least k people together and is not judged; which ones is.
"""

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
    activity = np.ones(groups)
    popularity = -np.log1p(-np.minimum(chance.share[items], 1 - 1e-6))
    published = [(slice(start, start + len(table)), ~np.isnan(table[:, items])) for start, table in tables()]
    for turn in range(ROUNDS):
        rows, columns = np.zeros((2, groups)), np.zeros((2, len(items)))
        for block, there in published:
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
    return _over_all_items(part, activity, popularity, items, chance)


def extend_rare_baseline(case: Case, part: CellBaseline, items: np.ndarray) -> CellBaseline:
    """Return the model of the whole release, given the popularity that a sample of its groups has."""
    wanted, popularity = np.zeros(case.release.n_items, bool), part.popularity[items]
    wanted[items] = True
    activity = np.ones(case.release.n_groups)
    for block in case.group_blocks():
        there = ~np.isnan(block.published) & wanted[block.items]
        real = np.bincount(block.groups[there] - block.start, minlength=block.rows)
        held = block.profiles.pattern()[:, items].toarray() > 0 if block.profiles.items is not None else None
        own = np.ones(block.rows)
        for _ in range(ROUNDS // 2):
            absent = np.exp(np.outer(-own, popularity))
            if held is not None:
                absent *= held
            published = len(items) if held is None else held.sum(axis=1)
            own = newton_step(own, real, published - absent.sum(axis=1), absent @ popularity)
        activity[block.profiles.rows_slice] = own
    return _over_all_items(case, activity, popularity, items, part)


def _over_all_items(
    case: Case, activity: np.ndarray, popularity: np.ndarray, items: np.ndarray, chance: CellBaseline
) -> CellBaseline:
    """Return the model with a column for every item; other items than these have no chance at all."""
    whole = np.zeros(case.release.n_items)
    whole[items] = popularity
    return CellBaseline(activity, whole, chance.share, chance.open_cells, chance.overall)
