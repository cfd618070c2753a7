"""Merge factitious ratings with real ones ([RFPP], section 5.1)."""

import numpy as np
import scipy.sparse as sp


def merge_ratings(ratings: sp.csr_array, added: sp.csr_array) -> sp.csr_array:
    """Merge ratings and additions into one matrix ([RFPP], equation 5).

    A rating of 0 stays a rating; SciPy's sum of sparse matrices would drop it.
    """
    people = np.arange(ratings.shape[0])
    row = np.concatenate([np.repeat(people, np.diff(part.indptr)) for part in (ratings, added)])
    item = np.concatenate([ratings.indices, added.indices])
    order = np.lexsort((item, row))
    indptr = np.asarray(ratings.indptr, np.int64) + added.indptr
    values = np.concatenate([ratings.data, added.data.astype(ratings.dtype)])
    return sp.csr_array((values[order], item[order], indptr), shape=ratings.shape)
