"""Publish some ratings of single contributors as they are, in releases that hold predictions otherwise."""

import numpy as np


def sole_cells(release):
    """The (group, item) cells that one person rated, that person, and the rating."""
    rows = np.repeat(np.arange(release.ratings.shape[0]), np.diff(release.ratings.indptr))
    keys = release.group_of[rows].astype(np.int64) * release.values.shape[1] + release.ratings.indices
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    alone = first[count == 1]
    return (
        release.group_of[rows[alone]],
        release.ratings.indices[alone],
        rows[alone],
        release.ratings.data[alone],
    )


def verbatim(release, chosen):
    """The same release with these of its single contributors' ratings published as they are."""
    groups, items, _, ratings = (each[chosen] for each in sole_cells(release))
    values = release.values.copy()
    values[groups, items] = ratings
    return release.but(values=values)
