"""Model all people's values together, and weigh the model against the published value.

The model's estimate of an entry and the value published there are two pieces of evidence. The model alone is the
paper's reconstruction (X, [Zhang2006], section 5); it loses what is peculiar to a person. With little noise the value
itself is better evidence, so five mixtures are tried. Ratings then follow by the person's mean and deviation, which the
paper takes to be known (P-MAE, section 6); the guess they are compared with knows them too.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from checks.reconstruction.assessment import Attempt, Disguised
from checks.reconstruction.detection import Noise
from checks.reconstruction.estimated_ratings import DETECTING, NoiseStrength
from checks.reconstruction.original_ratings import entry_rows

TRUST = {
    "the model alone": 0.0,
    "a quarter of the value": 0.25,
    "half and half": 0.5,
    "three quarters of the value": 0.75,
    "the value alone": 1.0,
}

Model = Callable[[sp.csr_array, Noise, NoiseStrength], np.ndarray]  # scores of some entries → scores of all


def mixtures(disguised: Disguised, model: Model) -> list[Attempt]:
    """Return every mixture of model and value; with a model for either kind of noise, where the kind is not known."""
    scores, level, unit = _scores(disguised)
    rows, columns = entry_rows(scores), scores.indices
    release = disguised.originals.case.release
    found: list[Attempt] = []
    noises = _noises(disguised)
    for noise in noises:
        modelled = model(scores, noise, disguised.strength)[rows, columns].astype(np.float64)
        for name, trust in TRUST.items():
            if trust == 1 and noise != noises[0]:  # the same with any model
                continue
            mixed = modelled + trust * (scores.data - modelled)
            ratings = np.clip(level[rows] + unit[rows] * mixed, release.low, release.high)
            recovered = sp.csr_array((ratings, columns, scores.indptr), shape=scores.shape)
            found.append(Attempt(name if trust == 1 else f"{name}, {noise} noise", recovered, mixed))
    return found


def _scores(disguised: Disguised) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Return values that lie around 0, and per record the level and the unit that turn them into ratings.

    Where z-scores are published, the person's own mean and deviation; where ratings are, the mean of the person's
    published values, and 1.
    """
    values = disguised.values.astype(np.float64)
    if disguised.unit == "z-score":
        return values, disguised.scores.means, disguised.scores.deviations
    counts = np.diff(values.indptr)
    level = np.bincount(entry_rows(values), weights=values.data, minlength=len(counts)) / np.maximum(
        counts, 1
    )
    around = sp.csr_array(
        (values.data - level[entry_rows(values)], values.indices, values.indptr), shape=values.shape
    )
    return around, level, np.ones(len(counts))


def _noises(disguised: Disguised) -> tuple[Noise, ...]:
    if disguised.kind in DETECTING:
        return (DETECTING[disguised.kind][0],)
    return ("gaussian", "uniform") if disguised.strength.pooled > 0 else ("gaussian",)
