"""Test the conversion between released values and ratings of a user."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.shadow.record_recommender import user_scales


def test_user_scales_convert_z_scores_and_ratings(tmp_path):
    """Ratings 2 4 | 5 5 | none: mean and deviation 3, 1; 5, 0; and the mean of all, 4."""
    matrix = sp.csr_array((np.array([2, 4, 5, 5], np.float32), [0, 2, 0, 1], [0, 2, 4, 4]), shape=(3, 3))
    write_ids(tmp_path, "user", ["a", "b", "c"])
    write_ids(tmp_path, "item", ["x", "y", "z"])
    write_matrix(tmp_path, matrix)
    scales = user_scales(Ratings(tmp_path), profiles.Coding("float32", unit="z-score"), every_item=False)
    assert scales.level.tolist() == [3, 5, 4]
    assert scales.deviation.tolist() == [1, 0, 0]
    assert scales.typical == 1
    assert scales.ratings(np.array([2.0, 2.0, 2.0])).tolist() == [5, 5, 4]
    assert scales.comparable(np.array([[2, 3], [5, 1], [4, 4]], np.float32)).tolist() == [
        [-1, 0],
        [0, 0],
        [0, 0],
    ]
    filled = user_scales(Ratings(tmp_path), profiles.Coding("float32", unit="z-score"), every_item=True)
    assert filled.deviation == pytest.approx([np.sqrt(2 / 3), 0, 0])
    assert filled.comparable(np.full((3, 1), 4, np.float32))[0] == pytest.approx(
        [1]
    )  # in ratings of a typical person
    ratings = user_scales(Ratings(tmp_path), profiles.Coding.in_steps((1, 5), 0.1), every_item=True)
    assert (ratings.level.tolist(), ratings.deviation.tolist(), ratings.typical) == ([0, 0, 0], [1, 1, 1], 1)
