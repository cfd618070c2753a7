"""Add by RFPP ([RFPP], section 5.1): items dominated by the other classes, similar to a rated one, popular first.

rank-k of [RFPP] gives every user the k most popular of these. Here the share of added ratings p₀ is requested
(section 6): every user gets the same number, up to one; users with fewer candidates leave the rest to others.
"""

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Request, build_additions, opposite_lists
from tasks.obfuscators._choice import Choice, levels_of


def add(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> sp.csr_array:
    """Add the most popular of the similar opposite items."""
    choice, levels = choices(ratings, labels, request)
    quota = choice.equal_quotas(request.total(ratings), request.chance)
    rows, items = choice.take_preferred(levels, quota, request.chance)
    return build_additions(rows, items, ratings, labels, request)


def choices(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> tuple[Choice, list[np.ndarray]]:
    """Return which items may be added to whom, most popular first, and which are equally popular."""
    popularity = np.bincount(ratings.indices, minlength=ratings.shape[1])
    lists = [found.items for found in opposite_lists(ratings, labels, request.classes, request.top)]
    lists = [items[np.lexsort((items, -popularity[items]))] for items in lists]
    return Choice.of(ratings, labels, lists, request), [levels_of(popularity[items]) for items in lists]
