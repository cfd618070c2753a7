"""Random items of the opposite list, the same number for everybody: the baseline without interest and popularity."""

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Wanted, factitious, opposite_lists
from tasks.obfuscators._choose import Choice


def add(ratings: sp.csr_array, labels: np.ndarray, wanted: Wanted) -> sp.csr_array:
    """Items drawn from the opposite list."""
    lists = [found.items for found in opposite_lists(ratings, labels, wanted.classes, wanted.top)]
    choice = Choice.of(ratings, labels, lists)
    quota = choice.equal_quotas(wanted.total(ratings), wanted.chance)
    return factitious(*choice.drawn(quota, wanted.chance), ratings, labels, wanted)
