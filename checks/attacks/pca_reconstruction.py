"""Run PCA reconstruction ([Huang2005]): as SVD with EM, without the EM ([Zhang2006], figure 4).

Entries that were not disguised count as the person's mean. It recovers less where most are missing, and as much where
hardly any is.
"""

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.reconstruction.assessment import PART_OF_RECORD, Attempt, Disguised, assess_reconstruction
from checks.reconstruction.detection import Noise
from checks.reconstruction.estimated_ratings import NoiseStrength
from checks.reconstruction.model_mixtures import mixtures
from checks.reconstruction.pca import reconstruct
from checks.registry import check
from checks.result import Finding


@check(
    "pca-reconstruction",
    threshold=1.0,
    controlled=True,
    as_published=True,
    about=About(
        title="PCA reconstruction",
        summary="Reconstruct ratings by principal components",
        knows="The attacker has the disguised values of all people.",
        tries="They project the values on their principal components, which keep taste and lose noise.",
        means=PART_OF_RECORD,
        measure="gain over the best guess",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the gain over the best guess in recovering single people's ratings (upper bound); at most
    1/k is allowed."""
    return assess_reconstruction(case, threshold, attack, "PCA", knowing_person=True)


def attack(disguised: Disguised) -> list[Attempt]:
    """Return ratings by the main components, and by their mixtures with the values."""
    return mixtures(disguised, _model)


def _model(scores: sp.csr_array, noise: Noise, strength: NoiseStrength) -> np.ndarray:
    return reconstruct(scores, noise=noise, amount=strength.amounts(noise))
