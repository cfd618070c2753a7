"""Build one profile per group: union, complete and average ([Chang2009], sections 4.3 and 5.2)."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

from tasks.kernels.padded import LowRank, code_type, encode

_LEAST_STRENGTH = 1e-4  # of the strongest direction: weaker ones are rounding errors
GROUPS_PER_SLAB = 32  # the predictions of this many groups stay in the second-level cache until encoded


@dataclass(frozen=True)
class Cells:
    """Hold the (group, item) cells that members rated, sorted by group and item.

    `count` is the number of raters, `real` the number of those whose rating is not factitious.
    """

    group: np.ndarray
    item: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    real: np.ndarray
    shape: tuple[int, int]


def group_cells(
    observed: sp.csr_array, labels: np.ndarray, groups: int, made_up: sp.csr_array | None = None
) -> Cells:
    """Return the number of contributors and their mean rating for each (group, item) cell that members rated.

    `observed` has a row per member, and so has `made_up`, the factitious ones among these ratings.
    """
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=groups))])
    held, item, count, total = _add_up(
        observed.indptr, observed.indices, observed.data, order, starts, observed.shape[1]
    )
    mean = (total / np.maximum(count, 1)).astype(np.float32)
    group, real = np.repeat(np.arange(groups), held), count.copy()
    if made_up is not None and made_up.nnz:
        false = group_cells(made_up, labels, groups)
        place = group * np.int64(observed.shape[1]) + item
        real[np.searchsorted(place, false.group * np.int64(observed.shape[1]) + false.item)] -= false.count
    return Cells(group, item, count, mean, real, (groups, observed.shape[1]))


def clip_outlying_groups(means: LowRank, quantile: float) -> LowRank:
    """Move groups with outlying tastes towards the mean taste, to this quantile of the groups' distances.

    What an attacker finds by spectral fits belongs to few groups of unusual people (docs/leaks-and-bars.md). Distances
    are Mahalanobis distances of the groups' tastes, so that rare directions count as much as common ones. A group's
    level, which shifts all items alike, stays: it is what factors that are the same for all items multiply.
    """
    taste = np.ptp(np.asarray(means.items), axis=0) > 0
    taste &= np.ptp(means.users, axis=0) > 0
    if quantile >= 1 or not taste.any() or len(means.users) < 3:
        return means
    centre = means.users[:, taste].mean(axis=0, dtype=np.float64)
    apart = means.users[:, taste] - centre
    strength, axes = np.linalg.eigh(apart.T @ apart / len(apart))
    strength = np.maximum(strength, _LEAST_STRENGTH * strength[-1])
    distance = np.linalg.norm((apart @ axes) / np.sqrt(strength), axis=1)
    most = np.quantile(distance, quantile)
    clipped = means.users.copy()
    clipped[:, taste] = centre + apart * np.minimum(1, most / np.maximum(distance, 1e-12))[:, None]
    return LowRank(clipped, means.items, means.mean)


@njit(cache=True, nogil=True)
def _add_up(indptr, indices, data, order, starts, n_items):  # type: ignore[no-untyped-def]
    """Return items, raters and sums of ratings of each group; the items of a group ascend."""
    count, total = np.zeros(n_items, np.int64), np.zeros(n_items)
    held = np.zeros(len(starts) - 1, np.int64)
    cell_item = np.empty(len(indices), np.int32)
    cell_count, cell_total = np.empty(len(indices), np.int64), np.empty(len(indices))
    end = 0
    for group in range(len(starts) - 1):
        first = end
        for member in order[starts[group] : starts[group + 1]]:
            for place in range(indptr[member], indptr[member + 1]):
                item = indices[place]
                if count[item] == 0:
                    cell_item[end] = item
                    end += 1
                count[item] += 1
                total[item] += data[place]
        cell_item[first:end].sort()
        held[group] = end - first
        for cell in range(first, end):
            item = cell_item[cell]
            cell_count[cell], cell_total[cell] = count[item], total[item]
            count[item], total[item] = 0, 0.0
    return held, cell_item[:end].copy(), cell_count[:end].copy(), cell_total[:end].copy()


def simple_profiles(
    predicted: LowRank, cells: Cells, min_contributors: float, common: np.ndarray | None = None
) -> sp.csr_array:
    """Return the union of the members' items with the mean over the raters.

    Where fewer than `min_contributors` members really rated an item, the mean of the members' predictions replaces
    it; everywhere, where that is infinite. So it does for items that are not `common` (None: all are).
    """
    values, few = cells.mean.copy(), cells.real < min_contributors
    if common is not None:
        few |= ~common[cells.item]
    values[few] = predicted.cells(cells.group[few], cells.item[few])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(cells.group, minlength=cells.shape[0]))])
    return sp.csr_array((values, cells.item, indptr), shape=cells.shape)


def observed_shifts(
    model: LowRank,
    observed: sp.csr_array,
    labels: np.ndarray,
    sizes: np.ndarray,
    min_contributors: int,
    made_up: sp.csr_array | None = None,
) -> sp.csr_array:
    """Return how much the members' observed ratings move a group's mean prediction, where enough members really
    rated.
    """
    user = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))
    residual = observed.data - model.cells(user, observed.indices)
    apart = sp.csr_array((residual, observed.indices, observed.indptr), shape=observed.shape)
    cells = group_cells(apart, labels, len(sizes), made_up)
    enough = cells.real >= min_contributors
    group = cells.group[enough]
    shift = cells.mean[enough] * (cells.count[enough] / sizes[group]).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(sizes)))])
    return sp.csr_array((shift, cells.item[enough], indptr), shape=cells.shape)


def padded_codes(
    means: LowRank, shifts: sp.csr_array | None, scale: tuple[float, float], step: float
) -> np.ndarray:
    """Return the published code of every item: a group's mean prediction, moved by `shifts` where ratings are kept.

    The predictions are never all in memory: those of a few groups are multiplied out and encoded before the next.
    """
    codes = np.empty(means.shape, code_type(scale, step))
    items = np.ascontiguousarray(means.items.T)
    slab = np.empty((GROUPS_PER_SLAB, means.shape[1]), np.float32)
    for start in range(0, len(codes), GROUPS_PER_SLAB):
        stop = min(start + GROUPS_PER_SLAB, len(codes))
        values = np.matmul(means.users[start:stop], items, out=slab[: stop - start])
        if shifts is not None:
            some = shifts[start:stop]
            row = np.repeat(np.arange(stop - start), np.diff(some.indptr))
            values[row, some.indices] += some.data
        encode(values, scale, step, shift=means.mean, out=codes[start:stop])
    return codes


def boost_profiles(
    profiles: sp.csr_array, predicted: LowRank, variances: np.ndarray, raters: np.ndarray, density: float
) -> sp.csr_array:
    """Add to each group its most confidently predicted other items, `density` of those it lacks.

    Confident: the members' predictions agree (low variance) and many users rated the item, so that the model knows
    it.
    """
    doubt = variances + (1.0 / (1.0 + raters)).astype(np.float32)
    held = np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr))
    doubt[held, profiles.indices] = np.inf
    lacking = profiles.shape[1] - np.diff(profiles.indptr)
    wanted = np.floor(density * lacking + 0.5).astype(np.int64)
    item = _least(doubt, wanted)
    group = np.repeat(np.arange(profiles.shape[0]), wanted)
    return add_cells(profiles, group, item, predicted.cells(group, item))


def _least(doubt: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the columns of each row's `wanted` lowest values, ascending; the first columns win ties."""
    chosen = [np.zeros(0, np.int64)]
    for values, count in zip(doubt, wanted.tolist(), strict=True):
        if count:
            bound = np.partition(values, count - 1)[count - 1]
            lowest = values < bound
            lowest[np.flatnonzero(values == bound)[: count - np.count_nonzero(lowest)]] = True
            chosen.append(np.flatnonzero(lowest))
    return np.concatenate(chosen)


def add_cells(
    profiles: sp.csr_array, group: np.ndarray, item: np.ndarray, values: np.ndarray
) -> sp.csr_array:
    """Add cells to profiles and sort them; a value of zero is a value, not an absence."""
    row = np.concatenate([np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr)), group])
    column = np.concatenate([profiles.indices, item]).astype(np.int32)
    data = np.concatenate([profiles.data, values.astype(profiles.data.dtype)])
    # A stable sort merges runs that are sorted already, as the cells are and the additions mostly.
    order = np.argsort(row * profiles.shape[1] + column, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=profiles.shape[0]))])
    return sp.csr_array((data[order], column[order], indptr), shape=profiles.shape)
