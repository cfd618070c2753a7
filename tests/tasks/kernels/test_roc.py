"""Test the ROC area per user, by hand and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tasks.kernels.roc import roc_area


def test_worked_by_hand():
    # Person 7: good 3 beats 1 and 2, good 2 beats 1 and ties with 2: 3½ of 4 pairs. Person 9: good below other: 0.
    # Person 11 has only good ones and does not count.
    users = np.array([7, 9, 7, 7, 11, 9, 7])
    scores = np.array([3.0, 1.0, 1.0, 2.0, 5.0, 4.0, 2.0])
    good = np.array([True, True, False, True, True, False, False])
    assert roc_area(users, scores, good) == pytest.approx((3.5 / 4 + 0) / 2)


def test_no_user_with_both_kinds_gives_none():
    assert roc_area(np.array([0, 1]), np.array([1.0, 2.0]), np.array([True, False])) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3), st.booleans()), min_size=1, max_size=60))
def test_equal_to_scikit_learn(cells):
    users, scores, good = (np.array(column) for column in zip(*cells, strict=True))
    areas = [
        roc_auc_score(good[users == user], scores[users == user])
        for user in np.unique(users)
        if len(set(good[users == user])) == 2
    ]
    ours = roc_area(users, scores.astype(float), good)
    assert ours == (pytest.approx(np.mean(areas)) if areas else None)
