"""k-means reconstruction (paper 001, section 4): ratings from one person's disguised values alone.

The values of a person lie around the levels of the scale: k-means finds as many points, in their order. Where ratings
are published, not z-scores, it is known where the levels lie, and the nearest one is "the solution" (section 4.1); both
are tried. Where every record has every item, the entries that stand out of the noise are taken for rated first.
"""

import scipy.sparse as sp

from checks.case import Case
from checks.reconstruction.judged import Attempt, Disguised, judge
from checks.reconstruction.kmeans import reconstruct
from checks.registry import check
from checks.result import Finding


@check("kmeans-reconstruction", threshold=1.0, controlled=True, as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Gain over the best guess in telling single people's ratings (upper bound); at most 1/k."""
    return judge(case, threshold, attack, "k-means")


def attack(disguised: Disguised) -> list[Attempt]:
    """One cluster per level; of ratings also the nearest level."""
    values, scale = disguised.values, disguised.originals.case.rating_scale
    attempts = [Attempt("clusters", reconstruct(values, scale.levels))]
    if disguised.unit == "rating":
        nearest = sp.csr_array(
            (scale.nearest(values.data), values.indices, values.indptr), shape=values.shape
        )
        attempts.append(Attempt("nearest level", nearest))
    return attempts
