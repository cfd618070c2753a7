"""Add by BlurMe ([Weinsberg2012]), the baseline of [RFPP].

Every user gets additions in proportion to the own ratings, sampled from all items that indicate the other classes by
their strength ("sampled", the strategy between their random and greedy), and rated with the item's average over all
users. Interest plays no part.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Request, build_additions, opposite_lists
from tasks.obfuscators._choice import Choice


def add(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> sp.csr_array:
    """Add items sampled by weight; `request.top` and `request.rating` are options of RFPP and are ignored."""
    lists = opposite_lists(ratings, labels, request.classes, None)
    choice = Choice.of(ratings, labels, [found.items for found in lists])
    counts = np.diff(ratings.indptr)
    quota = choice.proportional_quotas(request.total(ratings), request.chance, counts)
    rows, items = choice.draw(quota, request.chance, [found.strengths for found in lists])
    return build_additions(rows, items, ratings, labels, replace(request, rating="all"))
