"""One profile per group: union, complete and average (paper section 4.3), on padded data (5.2) or beyond."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.kernels.padded import LowRank


@dataclass(frozen=True)
class Cells:
    """The (group, item) cells that members really rated, sorted by group and item."""

    group: np.ndarray
    item: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    shape: tuple[int, int]


def group_cells(observed: sp.csr_array, labels: np.ndarray) -> Cells:
    """Who rated what in each group: number of contributors and their mean. `observed` has a row per member."""
    n_items = observed.shape[1]
    group = np.repeat(labels.astype(np.int64), np.diff(observed.indptr))
    keys, cell = np.unique(group * n_items + observed.indices, return_inverse=True)
    count = np.bincount(cell, minlength=len(keys))
    mean = np.bincount(cell, observed.data.astype(np.float64), len(keys)) / np.maximum(count, 1)
    groups = int(labels.max()) + 1 if len(labels) else 0
    return Cells(keys // n_items, keys % n_items, count, mean.astype(np.float32), (groups, n_items))


def simple_profiles(predicted: LowRank, cells: Cells, min_contributors: int) -> sp.csr_array:
    """Union of the members' items; mean over the raters, or the members' mean prediction where too few rated."""
    enough = cells.count >= min_contributors
    values = np.where(enough, cells.mean, predicted.cells(cells.group, cells.item))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(cells.group, minlength=cells.shape[0]))])
    return sp.csr_array((values.astype(np.float32), cells.item.astype(np.int32), indptr), shape=cells.shape)


def padded_profiles(
    model: LowRank,
    observed: sp.csr_array,
    labels: np.ndarray,
    sizes: np.ndarray,
    min_contributors: int,
    keep_observed: bool,
) -> np.ndarray:
    """Every item: mean prediction; with `keep_observed`, the mean of predictions and observed ratings together."""
    profiles = model.group_means(labels, len(sizes)).rows(slice(None))
    if keep_observed:
        user = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))
        residual = observed.data - model.cells(user, observed.indices)
        cells = group_cells(
            sp.csr_array((residual, observed.indices, observed.indptr), shape=observed.shape), labels
        )
        enough = cells.count >= min_contributors
        group, item = cells.group[enough], cells.item[enough]
        profiles[group, item] += cells.mean[enough] * cells.count[enough] / sizes[group]
    return profiles


def boost(
    profiles: sp.csr_array, predicted: LowRank, spread: np.ndarray, raters: np.ndarray, density: float
) -> sp.csr_array:
    """Add to each group its most confidently predicted other items, `density` of those it lacks (SCIENCE P0).

    Confident: the members' predictions agree (small spread) and many people rated the item (the model knows it).
    """
    doubt = spread + (1.0 / (1.0 + raters)).astype(np.float32)
    held = sp.csr_array(
        (np.ones(profiles.nnz, bool), profiles.indices, profiles.indptr), shape=profiles.shape
    )
    doubt[held.toarray()] = np.inf
    lacking = profiles.shape[1] - np.diff(profiles.indptr)
    wanted = np.floor(density * lacking + 0.5).astype(np.int64)
    order = np.argsort(doubt, axis=1, kind="stable")
    chosen = np.arange(profiles.shape[1])[None, :] < wanted[:, None]
    group = np.repeat(np.arange(profiles.shape[0]), wanted)
    item = order[chosen]
    return add_cells(profiles, group, item, predicted.cells(group, item))


def add_cells(
    profiles: sp.csr_array, group: np.ndarray, item: np.ndarray, values: np.ndarray
) -> sp.csr_array:
    """Profiles with further cells, sorted; a value of zero is a value, not an absence."""
    row = np.concatenate([np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr)), group])
    column = np.concatenate([profiles.indices, item])
    data = np.concatenate([profiles.data, values.astype(profiles.data.dtype)])
    order = np.lexsort((column, row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=profiles.shape[0]))])
    return sp.csr_array((data[order], column[order].astype(np.int32), indptr), shape=profiles.shape)
