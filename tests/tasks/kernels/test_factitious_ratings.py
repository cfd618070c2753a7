"""Test that factitious and real ratings are merged into one matrix."""

import numpy as np
import scipy.sparse as sp

from tasks.kernels.factitious_ratings import merge_ratings


def test_merge_keeps_a_rating_of_zero():
    ratings = sp.csr_array((np.array([0.0, -3.0], np.float32), [1, 0], [0, 1, 2]), shape=(2, 3))
    added = sp.csr_array((np.array([2.5, 0.0], np.float32), [0, 2], [0, 1, 2]), shape=(2, 3))
    both = merge_ratings(ratings, added)
    assert both.indptr.tolist() == [0, 2, 4]
    assert both.indices.tolist() == [0, 1, 0, 2]
    assert both.data.tolist() == [2.5, 0.0, -3.0, 0.0]
