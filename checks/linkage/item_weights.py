"""How much each item tells where the noise differs between items: one over its variance.

Gaussian noise addition (paper 003) gives every item noise in proportion to the deviation of its ratings, missing ones
at the centre of the scale. So an item that few rated has little noise, and tells most. How strong the noise on an item
is can be read off the published column: from its variance, or, lest a few wild values hide it, from the median distance
to its median. Where values were cut off at the ends of the scale neither shows it; but the attacker has the original
data, and knows how the noise follows from them.
"""

import numpy as np

from checks.case import Case
from checks.reconstruction.reading import medians
from checks.release import Release
from checks.sample import sampled


def item_weights(case: Case) -> dict[str, np.ndarray]:
    """One weight per item, 1 on average, for every way of telling the noise; 0 where an item does not vary at all."""
    published = _variance(case.release)
    typical = medians(sampled(case, "weights").release)[1] ** 2
    return {
        "the published variance": _weights(published),
        "the published median distance": _weights(np.where(typical > 0, typical, published)),
        "the original variance": _weights(_variance(case.raw.release)),
    }


def _variance(release: Release) -> np.ndarray:
    """Of every item, over all records, missing values at the centre of the scale."""
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
