"""Add the strongest items of the opposite list first, equally many to all users: the strategy against a fixed
inferrer.
"""

import numpy as np
import scipy.sparse as sp

from tasks.obfuscators import Request, build_additions, opposite_lists
from tasks.obfuscators._choice import Choice, levels_of


def add(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> sp.csr_array:
    """Add the items that most strongly indicate another class than the user's."""
    lists = opposite_lists(ratings, labels, request.classes, request.top)
    choice = Choice.of(ratings, labels, [found.items for found in lists])
    quota = choice.equal_quotas(request.total(ratings), request.chance)
    levels = [levels_of(found.strengths) for found in lists]
    return build_additions(*choice.take_preferred(levels, quota, request.chance), ratings, labels, request)
