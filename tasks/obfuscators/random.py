"""Add random items of the opposite list, equally many to all users: the baseline without interest and popularity."""

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Request, build_additions, opposite_lists
from tasks.obfuscators._choice import Choice


def add(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> sp.csr_array:
    """Add items drawn from the opposite list."""
    lists = [found.items for found in opposite_lists(ratings, labels, request.classes, request.top)]
    choice = Choice.of(ratings, labels, lists)
    quota = choice.equal_quotas(request.total(ratings), request.chance)
    return build_additions(*choice.draw(quota, request.chance), ratings, labels, request)
