"""Compute the level of each item's column: what all groups together show of the item."""

import numpy as np

from checks.evidence.release_view import ReleaseView


def item_levels(release: ReleaseView) -> tuple[np.ndarray, np.ndarray]:
    """Return per item the mean over the groups publishing it of (value − the group's own mean), and whether any group
    does.

    Whether a group rates high or low as a whole is what a release is meant to show, so that is subtracted.
    """
    total, count = np.zeros(release.n_items), np.zeros(release.n_items)
    for block in release.blocks():
        if block.items is None:
            table = block.table()
            levels = table.mean(axis=1, dtype=np.float64)
            total += table.sum(axis=0, dtype=np.float64) - levels.sum()
            count += block.rows
            continue
        rows, values = block.row_numbers(), block.values.astype(np.float64)
        level = np.bincount(rows, weights=values, minlength=block.rows) / np.maximum(np.diff(block.indptr), 1)
        total += np.bincount(block.items, weights=values - level[rows], minlength=block.n_items)
        count += np.bincount(block.items, minlength=block.n_items)
    return total / np.maximum(count, 1), count > 0
