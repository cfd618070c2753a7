"""The strongest items of the opposite list first, the same number for everybody: what misleads a fixed inferrer."""

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Wanted, factitious, opposite_lists
from tasks.obfuscators._choose import Choice, levels_of


def add(ratings: sp.csr_array, labels: np.ndarray, wanted: Wanted) -> sp.csr_array:
    """The items that speak most strongly against the person's class."""
    lists = opposite_lists(ratings, labels, wanted.classes, wanted.top)
    choice = Choice.of(ratings, labels, [found.items for found in lists])
    quota = choice.equal_quotas(wanted.total(ratings), wanted.chance)
    levels = [levels_of(found.strengths) for found in lists]
    return factitious(*choice.first(levels, quota, wanted.chance), ratings, labels, wanted)
