"""SVD reconstruction with EM (paper 001, section 5): a low-rank model of everybody's disguised values.

People's tastes hang together and noise does not: the main directions of all records keep the first and lose most of
the second. Gaussian and uniform noise have each their model; where everybody's noise is of another strength, the
stronger counts less.
"""

import numpy as np
import scipy.sparse as sp

from checks.case import Case
from checks.reconstruction.detection import Noise
from checks.reconstruction.judged import Attempt, Disguised, judge
from checks.reconstruction.modelled import attempts
from checks.reconstruction.reading import Strength
from checks.reconstruction.svd_em import Kind, reconstruct
from checks.registry import check
from checks.result import Finding


@check("svd-em-reconstruction", threshold=1.0, controlled=True, as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Gain over the best guess in telling single people's ratings (upper bound); at most 1/k."""
    return judge(case, threshold, attack, "SVD with EM", knowing_person=True)


def attack(disguised: Disguised) -> list[Attempt]:
    """The model of rank 10, and its mixtures with the values."""
    return attempts(disguised, _model)


def _model(scores: sp.csr_array, noise: Noise, strength: Strength) -> np.ndarray:
    kind: Kind = "weighted" if strength.flexible else "plain"
    return reconstruct(scores, noise=noise, amount=strength.amounts(noise), kind=kind)
