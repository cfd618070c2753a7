"""Test how flags are chosen and looked up, on small arrays worked out by hand."""

from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

from checks.recovery.flagged_ratings import _largest, _largest_of_runs, levels_of_rows
from checks.recovery.member_links import find_rated_flags
from checks.recovery.rating_model import RatingModel, Ridge


def test_largest_scores_of_each_run_best_first_and_of_equal_ones_the_first():
    score = np.array([1, 3, 2, 3, 5, 0, 0, 0], np.float32)
    order, rank = _largest_of_runs(score, np.array([0, 4, 5, 8]), 2)
    assert order.tolist() == [1, 3, 4, 5, 6]
    assert rank.tolist() == [0, 1, 0, 0, 1]


def test_largest_scores_of_runs_are_those_of_a_full_sort():
    random = np.random.default_rng(5)
    score = random.integers(0, 9, 500).astype(np.float32)
    owner = np.sort(random.integers(0, 30, 500))
    starts = np.concatenate([np.flatnonzero(np.diff(owner, prepend=-1)), [500]])
    everything = np.lexsort((-score, owner))
    expected = np.concatenate([everything[first : first + 7] for first in starts[:-1]])  # all have at least 7
    assert (np.diff(starts) >= 7).all()
    assert _largest_of_runs(score, starts, 7)[0].tolist() == expected.tolist()


def test_largest_scores_of_all():
    score = np.array([4, 1, 7, 4, 4], np.float32)
    assert _largest(score, 3).tolist() == [2, 0, 3]
    assert _largest(score, 9).tolist() == [2, 0, 3, 4, 1]


def test_level_of_a_group_leaves_out_what_is_not_published():
    table = np.array([[2, 5], [3, np.nan], [np.nan, np.nan]], np.float32)
    for_all, of_each = np.array([[1, 2]], np.float32), np.array([[0, 1], [3, 0], [1, 1]], np.float32)
    assert levels_of_rows(table, for_all).tolist() == [2, 2, 0]
    assert levels_of_rows(table, of_each).tolist() == [3, 0, 0]


def test_rated_flags_of_groups_and_members():
    """Two groups: people 2 and 0, and person 1; the second has one flag only."""
    ratings = sp.csr_array(np.array([[5, 0, 0, 1], [0, 2, 0, 0], [0, 0, 3, 1]], np.float32))
    case = SimpleNamespace(
        groups=SimpleNamespace(starts=np.array([0, 2, 3]), members=np.array([2, 0, 1])),
        truth=SimpleNamespace(ratings=ratings),
        release=SimpleNamespace(n_items=4),
    )
    flags = np.array([[3, 1, 2], [4 + 3, -1, -1]])
    groups, members, people = find_rated_flags(case, flags)
    assert groups.tolist() == [[True, False, True], [False, False, False]]
    assert members.tolist() == [2, 0, 1]
    assert people.tolist() == [[True, False, True], [True, False, False], [False, False, False]]


def test_person_of_a_rating_model_by_hand():
    """One factor: the ridge regression of two ratings on the factors 1 and −1 and a constant."""
    items = np.array([[1, 0], [-1, 0.5]], np.float32)  # factor and level
    model = RatingModel(3.0, items, np.ones(2, bool), Ridge(0.5, 1.0, 0.0, 2.0))
    found = model.people(sp.csr_array(np.array([[5, 2.5]], np.float32)))
    # Errors 2 and −1; factors: 2 + 0.5 · 2 + 1 = 4, level: 2 + 2 = 4, no cross term; right sides 3 and 1.
    assert found.tolist() == [[0.75, 0.25]]
