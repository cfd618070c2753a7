"""Test the parts of the benchmark of counts of raters."""

import numpy as np
import scipy.sparse as sp

from benchmarks.support import Lists, count, group_by_choice
from tasks.studies.compare.utility import Held


def test_groups_by_choice_hold_people_who_rated_the_same():
    draw = np.random.default_rng(0)
    kind = draw.permutation(np.repeat([0, 1], 40))
    rated = draw.random((80, 30)) < np.where((np.arange(30) < 15)[None, :] == (kind == 0)[:, None], 0.7, 0.02)
    rated[:, 0] = True
    labels = group_by_choice(sp.csr_array(rated.astype(np.float32)), 10)
    sizes = np.bincount(labels)
    assert sizes.min() >= 10
    assert sizes.sum() == 80
    mixed = np.bincount(labels, weights=kind) / sizes
    assert ((mixed < 0.1) | (mixed > 0.9)).all()


def test_raters_of_groups_are_counted():
    marks = sp.csr_array(np.array([[1, 0], [1, 1], [1, 0]], np.float32))
    counts = count(marks, np.array([1, 0, 1]))
    found = np.zeros((2, 2), int)
    found[counts.group, counts.item] = counts.raters
    assert found.tolist() == [[1, 1], [2, 0]]


def test_lists_are_measured_without_items_that_were_rated_before():
    """Two people, three items: the first wants item 2, the second 1; the list 0, 2, 1 puts the one first, the other
    second."""
    known = sp.csr_array(np.array([[3.0, 0, 0], [4.0, 0, 0]]))
    held = Held(known, np.array([0, 1]), np.array([2, 1]), np.array([5.0, 4.0]), np.array([0, 0]))
    score = Lists(held, (1.0, 5.0)).measure(np.array([[9.0, 1.0, 2.0]]), np.zeros(2, int), None)
    assert score == round((1 + 1 / np.log2(3)) / 2, 4)
