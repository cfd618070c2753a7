"""People who are not there: what an attack seems to find of people the release was made without.

SCIENCE P2, "A gate that cannot fail is worthless": a group nearest to the whole profile of somebody who was left
out before anonymization is a "hit" that no release can be blamed for. The rate of such hits is the baseline r₀ of an
attack, and (r − r₀)/(1 − r₀) what is left for the release to answer for.
"""

import numpy as np
import scipy.sparse as sp

from checks.case import Case
from checks.linkage.knowledge import Model
from checks.linkage.nearest import nearest_records
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import Rule
from checks.stats import Risk


def absent_risk(case: Case, rule: Rule, model: Model) -> Risk | None:
    """The user-level risk of an attack on absent people; None where there are none (too little data)."""
    ranks = absent_ranks(case, rule, model)
    if not len(ranks):
        return None
    return Risk(float(ranks.identification.sum()), len(ranks), ceiling=case.shadow.ceiling)


def absent_ranks(case: Case, rule: Rule, model: Model) -> Ranks:
    """Where the record nearest to each absent person's whole profile stands in the shadow release."""
    shadow = case.shadow
    targets, own = shadow.absent
    if model.choice == "forum":  # those who write in forums are the heavy raters
        heavy = np.diff(shadow.truth.ratings.indptr)[targets] >= shadow.heavy_from
        targets, own = targets[heavy], own[heavy]
    return rank(shadow.postings, rule, shadow.known(targets, model), own, engine=case.engine)


def nearest_profile(shadow: Case, people: np.ndarray) -> np.ndarray:
    """The record nearest to all that these people rated, where a record lacks an item its mean.

    Compared on what they rated: on every item, records near the means are nearest to nearly everybody (MovieLens
    100K, padded: 6 records serve 43 people, and 4 % of the members find their own group instead of 78 %).
    """
    profiles = sp.csr_array(shadow.truth.ratings[people])
    found = nearest_records(shadow, profiles, fill=shadow.item_means, rated_only=True)
    return found.ranks.best_at.astype(np.int64)
