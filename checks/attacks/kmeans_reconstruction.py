"""Run k-means reconstruction ([Zhang2006], section 4): ratings from one person's disguised values alone.

The values of a person lie around the levels of the scale: k-means finds as many points, in their order. Where ratings
are published, not z-scores, the levels are known, and the nearest one is "the solution" (section 4.1); both are tried.
Where every record has every item, the entries that exceed the noise are taken as rated first.
"""

import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.reconstruction.assessment import PART_OF_RECORD, Attempt, Disguised, assess_reconstruction
from checks.reconstruction.kmeans import reconstruct
from checks.reconstruction.rating_scale import rating_scale
from checks.registry import check
from checks.result import Finding


@check(
    "kmeans-reconstruction",
    threshold=1.0,
    controlled=True,
    as_published=True,
    about=About(
        title="K-means reconstruction",
        summary="Reconstruct one person's ratings from their own record",
        knows="The attacker has a person's disguised values.",
        tries="They cluster the values around the levels of the rating scale and read the levels back.",
        means=PART_OF_RECORD,
        measure="gain over the best guess",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the gain over the best guess in recovering single people's ratings (upper bound); at most
    1/k is allowed."""
    return assess_reconstruction(case, threshold, attack, "k-means")


def attack(disguised: Disguised) -> list[Attempt]:
    """Return ratings by one cluster per level; where ratings are published, also by the nearest level."""
    values, scale = disguised.values, rating_scale(disguised.originals.case)
    attempts = [Attempt("clusters", reconstruct(values, scale.levels))]
    if disguised.unit == "rating":
        nearest = sp.csr_array(
            (scale.nearest(values.data), values.indices, values.indptr), shape=values.shape
        )
        attempts.append(Attempt("nearest level", nearest))
    return attempts
