"""Test that strata have a share of every class, and that partners are drawn from another class within them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.class_strata import assign_strata, draw_partners


def test_strata_pair_the_halves_of_each_class():
    """Women at 0..3, men at 10..17: each is cut by its own median, so the lower women stand beside the lower men."""
    points = np.array([[0.0], [1], [2], [3], *([float(x)] for x in range(10, 18))])
    labels = np.repeat([0, 1], [4, 8])
    found = assign_strata(points, labels)
    low = found[0]
    assert (found == low).tolist() == [True, True, False, False, *[True] * 4, *[False] * 4]
    assert sorted(np.unique(found).tolist()) == [0, 1]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(0, 30),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
def test_every_stratum_has_its_share_of_every_class(first, second, third, fewest, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [first, second, third]))
    points = rng.standard_normal((len(labels), 3))
    found = assign_strata(points, labels, fewest)
    assert sorted(np.unique(found).tolist()) == list(range(found.max() + 1))
    for label in np.unique(labels):
        counts = np.bincount(found[labels == label], minlength=found.max() + 1)
        if found.max() > 0:
            assert counts.min() >= fewest
        # Halved again and again: assign_strata of one depth differ by one, and depths differ by one at most.
        assert counts.max() <= 2 * counts.min() + 2
    assert np.array_equal(found, assign_strata(points, labels, fewest))


def test_partners_by_hand():
    strata = np.array([0, 0, 0, 1, 1])
    labels = np.array([0, 1, 1, 0, 1])
    chosen = draw_partners(strata, labels, np.array([0.1, 0.1, 0.9, 0.5, 0.5]))
    assert chosen.tolist() == [1, 0, 0, 4, 3]
    assert draw_partners(strata, labels, np.array([0.9, 0.1, 0.9, 0.5, 0.5]))[0] == 2


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 80), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**31))
def test_partners_are_of_another_class_in_the_same_stratum(many, classes, crowd_count, seed):
    rng = np.random.default_rng(seed)
    labels, strata = rng.integers(0, classes, many), rng.integers(0, crowd_count, many)
    chosen = draw_partners(strata, labels, rng.random(many))
    there = chosen >= 0
    assert (strata[chosen[there]] == strata[there]).all()
    assert (labels[chosen[there]] != labels[there]).all()
    alone = [len(np.unique(labels[strata == strata[person]])) == 1 for person in np.flatnonzero(~there)]
    assert all(alone)


def test_all_possible_partners_are_equally_likely():
    strata, labels = np.zeros(6, int), np.array([0, 1, 1, 2, 2, 2])
    draws = (np.arange(5000) + 0.5) / 5000
    found = [draw_partners(strata, labels, np.full(6, draw))[1] for draw in draws[::10]]
    assert np.bincount(found, minlength=6) / len(found) == pytest.approx(
        [0.25, 0, 0, 0.25, 0.25, 0.25], abs=0.01
    )
