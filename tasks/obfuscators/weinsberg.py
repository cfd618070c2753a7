"""Weinsberg et al., BlurMe (RecSys 2012), the work that paper 004 compares itself with: everybody gets additions in
proportion to the own ratings, sampled from all items that speak for the others by how strongly they do ("sampled", the
strategy between their random and greedy), and rated with the item's average over everybody. Interest plays no part.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Wanted, factitious, opposite_lists
from tasks.obfuscators._choose import Choice


def add(ratings: sp.csr_array, labels: np.ndarray, wanted: Wanted) -> sp.csr_array:
    """Items sampled by weight; `wanted.top` and `wanted.rating` are RFPP's choices and not theirs."""
    lists = opposite_lists(ratings, labels, wanted.classes, None)
    choice = Choice.of(ratings, labels, [found.items for found in lists])
    counts = np.diff(ratings.indptr)
    quota = choice.proportional_quotas(wanted.total(ratings), wanted.chance, counts)
    rows, items = choice.drawn(quota, wanted.chance, [found.strengths for found in lists])
    return factitious(rows, items, ratings, labels, replace(wanted, rating="all"))
