"""Extend the cell baseline from a sample of the groups to all groups.

Fitting activity and popularity of a large release together takes many passes. The sample's popularity is close enough
to begin with: every group's activity follows from it, every item's popularity from these, over all groups, and the
activities once more. Each is solved from how many published cells lie in each of some hundred bins of the other.
"""

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.recovery.cell_baseline import CERTAIN, ROUNDS, CellBaseline, newton_step

BINS = 200
SPAN = 1e-6  # of the largest: below it no chance matters


def extend_to_all_groups(case: Case, part: CellBaseline) -> CellBaseline:
    """Return the model of the whole release, beginning from that of a sample."""
    by_group, by_item, published = _counted(case)
    activity = _activity(case, np.ones(case.release.n_groups), by_group, part.popularity)
    popularity = np.maximum(
        part.popularity, by_item / np.maximum(published, 1)
    )  # items absent from the sample
    counts, typical = _per_item(case, activity)
    popularity = _solved(popularity, by_item, counts, typical)
    activity = _activity(case, activity, by_group, popularity)
    counts, typical = _per_item(case, activity)
    in_doubt = np.outer(popularity, typical) <= -np.log1p(-CERTAIN)
    open_cells = np.where(in_doubt, counts, 0).sum(axis=1).astype(np.int64)
    overall = float(by_item.sum() / max(1, published.sum()))
    return CellBaseline(activity, popularity, by_item / np.maximum(published, 1), open_cells, overall)


def _counted(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count published cells with a real rating, per group and per item, and published cells per item."""
    by_group = np.zeros(case.release.n_groups, dtype=np.int64)
    by_item, published = (np.zeros(case.release.n_items, dtype=np.int64) for _ in range(2))
    for block in case.group_blocks():
        profiles = block.profiles
        there = slice(None) if profiles.items is None else ~np.isnan(block.published)
        by_item += np.bincount(block.items[there], minlength=len(by_item))
        by_group[profiles.rows_slice] = np.bincount(block.groups[there] - block.start, minlength=block.rows)
        published += (
            block.rows if profiles.items is None else np.bincount(profiles.items, minlength=len(published))
        )
    return by_group, by_item, published


def _activity(case: Case, start: np.ndarray, by_group: np.ndarray, popularity: np.ndarray) -> np.ndarray:
    """Return every group's activity, given the items' popularity."""
    bins, typical = _binned(popularity)
    member_of = _one_hot(bins)
    activity = np.empty(len(start))
    for block in case.release.blocks():
        rows = block.rows_slice
        if block.items is None:
            counts = np.broadcast_to(np.bincount(bins, minlength=BINS), (block.rows, BINS))
        else:
            counts = (block.pattern() @ member_of).toarray()
        activity[rows] = _solved(start[rows], by_group[rows], counts, typical)
    return activity


def _per_item(case: Case, activity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count published cells per item and bin of the groups' activity; return the counts and the activity
    of each bin."""
    bins, typical = _binned(activity)
    counts, of_every_item = np.zeros((case.release.n_items, BINS)), np.zeros(BINS)
    for block in case.release.blocks():
        own = bins[block.rows_slice]
        if block.items is None:
            of_every_item += np.bincount(own, minlength=BINS)
        else:
            counts += (_one_hot(own).T @ block.pattern()).toarray().T
    counts += of_every_item
    return counts, typical


def _binned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of every value, by its logarithm, and the mean of the values in each bin."""
    largest = max(float(values.max(initial=0)), 1e-9)
    bins = np.digitize(values, np.geomspace(SPAN * largest, largest, BINS)[1:-1])
    count = np.bincount(bins, minlength=BINS)
    return bins, np.bincount(bins, weights=values, minlength=BINS) / np.maximum(count, 1)


def _one_hot(bins: np.ndarray) -> sp.csr_array:
    ones = np.ones(len(bins), dtype=np.float32)
    return sp.csr_array((ones, bins, np.arange(len(bins) + 1)), shape=(len(bins), BINS))


def _solved(now: np.ndarray, wanted: np.ndarray, counts: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """Solve one side of 1 − exp(−activity · popularity) so that the cells of each row add up to the wanted number."""
    published = counts.sum(axis=1)
    for _ in range(ROUNDS // 2):  # as many steps as the fit of a small release takes for each side
        absent = counts * np.exp(np.outer(-now, typical))
        now = newton_step(now, wanted, published - absent.sum(axis=1), absent @ typical)
    return now
