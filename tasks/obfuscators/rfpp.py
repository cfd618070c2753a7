"""RFPP (paper 004, section 5.1): items dominated by the others, similar to something the person rated, popular first.

The paper's rank-k gives everybody the k most popular of these. Here the share of added ratings p₀ is what is asked for
(section 6): everybody gets the same number, up to one; who has fewer to choose from leaves the rest to others.
"""

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Wanted, factitious, opposite_lists
from tasks.obfuscators._choose import Choice, levels_of


def add(ratings: sp.csr_array, labels: np.ndarray, wanted: Wanted) -> sp.csr_array:
    """The most popular of the similar opposite items."""
    choice, levels = choices(ratings, labels, wanted)
    quota = choice.equal_quotas(wanted.total(ratings), wanted.chance)
    rows, items = choice.first(levels, quota, wanted.chance)
    return factitious(rows, items, ratings, labels, wanted)


def choices(ratings: sp.csr_array, labels: np.ndarray, wanted: Wanted) -> tuple[Choice, list[np.ndarray]]:
    """What may be added to whom, most popular first, and which items are equally popular."""
    popularity = np.bincount(ratings.indices, minlength=ratings.shape[1])
    lists = [found.items for found in opposite_lists(ratings, labels, wanted.classes, wanted.top)]
    lists = [items[np.lexsort((items, -popularity[items]))] for items in lists]
    return Choice.of(ratings, labels, lists, wanted), [levels_of(popularity[items]) for items in lists]
