"""Test the estimate of how large groups must be for homogeneity, on people whose shares can be counted by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from checks.linkage.larger_groups import count_true, least_size, sizes_to_try

# Two people who rated nothing but item 0, two who rated it and something else, two with other items.
RATINGS = np.array(
    [
        [5, 0, 0, 0, 0, 0, 0],
        [5, 0, 0, 0, 0, 0, 0],
        [5, 2, 0, 0, 0, 0, 0],
        [5, 0, 2, 0, 0, 0, 0],
        [0, 0, 0, 4, 1, 0, 0],
        [0, 0, 0, 0, 0, 4, 1],
    ],
    np.float32,
)
TRUTH = SimpleNamespace(ratings=sp.csr_array(RATINGS), half_level=0.5, seen=np.ones(6, dtype=bool))
PAIR = np.array([0, 1])


@pytest.mark.parametrize(
    ("people", "true", "cells"),
    [([0, 1], 2, 2), ([0, 1, 2], 4, 6), ([0, 1, 2, 3], 6, 12), ([0, 1, 2, 3, 4, 5], 10, 42)],
)
def test_more_people_bring_more_items(people, true, cells):
    assert count_true(TRUTH, np.array(people)) == (true, cells)


def test_ratings_far_from_the_mean_are_not_true():
    apart = SimpleNamespace(ratings=sp.csr_array(np.array([[1.0], [5.0], [3.0]])), half_level=0.5)
    assert count_true(apart, np.arange(3)) == (1, 3)


@pytest.mark.parametrize(
    ("threshold", "size"),
    [(0.95, 3), (0.8, 4), (0.5, 6), (0.3, None)],  # upper bounds: 0.90, 0.75, 0.39
)
def test_least_size_by_hand(threshold, size):
    assert least_size(TRUTH, [PAIR], (3, 4, 6), threshold) == size


def test_every_group_must_pass():
    other = np.array([4, 5])  # four items, half of them true of each: better from the start
    assert least_size(TRUTH, [other], (3, 4, 6), 0.8) == 3
    assert least_size(TRUTH, [other, PAIR], (3, 4, 6), 0.8) == 4


def test_sizes_need_enough_people():
    assert sizes_to_try(5, 90) == [10, 20]
    assert sizes_to_try(20, 4_000) == [50, 100, 200, 500]
    assert sizes_to_try(5, 30) == []
    assert least_size(TRUTH, [PAIR], [], 0.5) is None
