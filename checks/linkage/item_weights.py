"""Weigh items by how little noise they have, where the noise differs between items: one over its variance.

Gaussian noise addition ([Casino2015]) gives every item noise in proportion to the deviation of its ratings, missing
ones at the centre of the scale. So an item that few people rated has little noise and reveals most. The strength of the
noise on an item can be read off the published column: from its variance or, because a few extreme values would hide it,
from the median distance to its median. Where values were cut off at the ends of the scale neither shows it; but the
attacker has the original data, and knows how the noise follows from them.
"""

import numpy as np

from checks.evidence.case import Case
from checks.evidence.release_view import ReleaseView
from checks.evidence.views.raw import raw_view
from checks.evidence.views.sample import sampled
from checks.reconstruction.estimated_ratings import medians


def item_weights(case: Case) -> dict[str, np.ndarray]:
    """Return one weight per item, 1 on average, for every way of estimating the noise; 0 where an item
    does not vary."""
    published = _variance(case.release)
    typical = medians(sampled(case, "weights").release)[1] ** 2
    return {
        "the published variance": _weights(published),
        "the published median distance": _weights(np.where(typical > 0, typical, published)),
        "the original variance": _weights(_variance(raw_view(case).release)),
    }


def _variance(release: ReleaseView) -> np.ndarray:
    """Return the variance of every item over all records, missing values at the centre of the scale."""
    total, squares = np.zeros(release.n_items), np.zeros(release.n_items)
    middle = (release.low + release.high) / 2
    for block in release.blocks():
        apart = block.values - middle
        total += np.bincount(block.columns, weights=apart, minlength=release.n_items)
        squares += np.bincount(block.columns, weights=apart * apart, minlength=release.n_items)
    mean = total / max(1, release.n_groups)
    return np.maximum(squares / max(1, release.n_groups) - mean * mean, 0)


def _weights(variance: np.ndarray) -> np.ndarray:
    varies = variance > 1e-9
    weights = np.divide(1.0, variance, out=np.zeros(len(variance)), where=varies)
    return weights / weights.mean() if varies.any() else np.ones(len(variance))
