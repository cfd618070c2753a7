"""PCA reconstruction (Huang, Du and Chen, SIGMOD 2005): as SVD with EM, without the EM (paper 001, figure 4).

Entries that were not disguised count as the person's mean. It tells less where most are missing, and as much where
hardly any is.
"""

import numpy as np
import scipy.sparse as sp

from checks.case import Case
from checks.reconstruction.detection import Noise
from checks.reconstruction.judged import Attempt, Disguised, judge
from checks.reconstruction.modelled import attempts
from checks.reconstruction.pca import reconstruct
from checks.reconstruction.reading import Strength
from checks.registry import check
from checks.result import Finding


@check("pca-reconstruction", threshold=1.0, controlled=True, as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Gain over the best guess in telling single people's ratings (upper bound); at most 1/k."""
    return judge(case, threshold, attack, "PCA", knowing_person=True)


def attack(disguised: Disguised) -> list[Attempt]:
    """The main components, and their mixtures with the values."""
    return attempts(disguised, _model)


def _model(scores: sp.csr_array, noise: Noise, strength: Strength) -> np.ndarray:
    return reconstruct(scores, noise=noise, amount=strength.amounts(noise))
