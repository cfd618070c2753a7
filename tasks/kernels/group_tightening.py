"""Exchange members between neighbouring groups until no exchange lowers the squared distance to the means.

Users are grouped by the chosen metric ([Chang2009], section 4.2), but a group's mean is published (section 4.3).
Where the metric leaves the choice nearly open, the grouping that the means represent best is the better release.
"""

import numpy as np

from tasks.kernels.partition_search import exchange_members
from tasks.kernels.rating_vectors import RatingVectors

_SWEEPS = 50  # a guard against rounding that never settles; 5 to 12 are usual


def tighten_groups(points: RatingVectors, labels: np.ndarray, *, min_size: int) -> np.ndarray:
    """Return the labels after all improving moves and swaps; every group keeps at least `min_size` members."""
    groups = int(labels.max()) + 1
    if groups == 1:
        return labels
    labels = labels.astype(np.int32)
    most = max(2 * min_size - 1, int(np.bincount(labels).max()))
    exchange_members(points.squared_pair_distances(), labels, groups, min_size, most, _SWEEPS)
    return labels
