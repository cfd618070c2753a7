"""Run SVD reconstruction with EM ([Zhang2006], section 5): a low-rank model of all people's disguised values.

People's tastes are correlated and noise is not: the main directions of all records keep the first and lose most of the
second. Gaussian and uniform noise have each their model; where records have noise of different strength, the noisier
count less.
"""

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.reconstruction.assessment import PART_OF_RECORD, Attempt, Disguised, assess_reconstruction
from checks.reconstruction.detection import Noise
from checks.reconstruction.estimated_ratings import NoiseStrength
from checks.reconstruction.model_mixtures import mixtures
from checks.reconstruction.svd_em import Kind, reconstruct
from checks.registry import check
from checks.result import Finding


@check(
    "svd-em-reconstruction",
    threshold=1.0,
    controlled=True,
    as_published=True,
    about=About(
        title="SVD reconstruction",
        summary="Reconstruct ratings by a model of all people's records",
        knows="The attacker has the disguised values of all people.",
        tries="They fit a low-rank model that keeps what people's tastes share and removes the noise.",
        means=PART_OF_RECORD,
        measure="gain over the best guess",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the gain over the best guess in recovering single people's ratings (upper bound); at most
    1/k is allowed."""
    return assess_reconstruction(case, threshold, attack, "SVD with EM", knowing_person=True)


def attack(disguised: Disguised) -> list[Attempt]:
    """Return ratings by the model of rank 10, and by its mixtures with the values."""
    return mixtures(disguised, _model)


def _model(scores: sp.csr_array, noise: Noise, strength: NoiseStrength) -> np.ndarray:
    kind: Kind = "weighted" if strength.flexible else "plain"
    return reconstruct(scores, noise=noise, amount=strength.amounts(noise), kind=kind)
