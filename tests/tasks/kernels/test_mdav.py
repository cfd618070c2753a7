"""Test MDAV and V-MDAV by hand, and record by record against the plain reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.mdav import mdav, v_mdav
from tasks.kernels.ungrouped_records import squared_distances
from tests.tasks.kernels.plain_mdav import plain_mdav, plain_v_mdav


def line(*places):
    return np.array(places, float)[:, None]


# --- by hand


def test_the_ends_of_a_line_are_grouped_first():
    # Mean 16.7: r is 0, with 1; s is 30, with 26. The rest, 21 and 22, is 0.5 from its mean and 6 from 28.
    assert mdav(line(0, 1, 21, 22, 26, 30), 2).tolist() == [0, 0, 2, 2, 1, 1]


def test_distant_leftover_joins_other_groups():
    # 39 and 61 are the first groups; 40 and 60 are 10 from their mean and 1 from one of these.
    assert mdav(line(39, 39, 40, 60, 61, 61), 2).tolist() == [0, 0, 0, 1, 1, 1]


def test_half_of_the_leftover_is_not_a_majority():
    # 60 and 90 are 15 from their mean; 60 is 40 from the next group, 90 is 10 from it: one of two.
    assert mdav(line(0, 0, 60, 90, 100, 100), 2).tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(("n", "k", "expected"), [(2, 2, [2]), (3, 2, [3]), (5, 3, [5]), (7, 7, [7])])
def test_fewer_than_2k_records_form_one_group(n, k, expected):
    assert np.bincount(mdav(np.arange(n)[:, None] ** 2.0, k)).tolist() == expected


def test_fewer_than_3k_records_form_a_group_and_a_rest():
    # Five records, k = 2: r = 100 with 99, and the rest 0, 1, 2 about 1: all nearer to 1 than to 99.5.
    assert mdav(line(0, 1, 2, 99, 100), 2).tolist() == [1, 1, 1, 0, 0]


def test_equal_records_are_grouped_in_order():
    # All distances are 0: groups of three take the lowest records; the last four are no nearer to themselves than to
    # the first group, which takes them.
    assert mdav(np.ones((10, 3)), 3).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0]


def test_too_few_records_are_refused():
    with pytest.raises(ValueError, match="2 records cannot form a group of 3"):
        mdav(np.zeros((2, 2)), 3)


def test_v_mdav_extends_a_group_by_near_records():
    # Mean 31.2: the farthest is 100, with 90. 3 is 87 from them: not taken. Then 0 with 1; 3 is 2 away and nothing is
    # left outside: taken.
    points = line(0, 1, 3, 90, 100)
    assert v_mdav(points, 2, 1.1).tolist() == [1, 1, 1, 0, 0]
    # With gamma 0 nothing is taken; 3 is left over and joins the nearer mean, 0.5.
    assert v_mdav(points, 2, 0.0).tolist() == [1, 1, 1, 0, 0]


def test_gamma_controls_the_extension():
    # 100 begins with 90. Its nearest outside is 70: 20 away, and 30 from 40. 20 < 0.7 · 30, but not < 0.6 · 30.
    points = line(0, 1, 2, 40, 70, 90, 100)
    assert v_mdav(points, 2, 0.7)[[4, 5, 6]].tolist() == [0, 0, 0]
    near = v_mdav(points, 2, 0.6)
    assert near[5] == near[6] == 0
    assert near[4] != 0


# --- as the textbook


def scattered(rng, rows, columns):
    return rng.normal(size=(rows, columns))


def rated(rng, rows, columns):
    """Generate few levels with the centre everywhere else, as ratings filled with the centre and standardised."""
    filled = np.where(rng.random((rows, columns)) < 0.3, rng.integers(1, 6, (rows, columns)), 3.0)
    deviation = filled.std(axis=0)
    return (filled - filled.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


def with_ties(rng, rows, columns):
    return rng.integers(0, 3, (rows, columns)).astype(float)


def with_copies(rng, rows, columns):
    return scattered(rng, rows, columns)[rng.integers(0, max(1, rows // 4), rows)]


def far_from_the_origin(rng, rows, columns):
    return with_ties(rng, rows, columns) + 1e7


def with_an_outlier(rng, rows, columns):
    points = scattered(rng, rows, columns)
    points[rng.integers(rows)] *= 1e25
    return points


def symmetric(rng, rows, columns):
    half = scattered(rng, -(-rows // 2), columns)
    return np.concatenate([half, -half])[:rows]


KINDS = (scattered, rated, with_ties, with_copies, far_from_the_origin, with_an_outlier, symmetric)


@st.composite
def clouds(draw):
    make, rows, columns = draw(st.sampled_from(KINDS)), draw(st.integers(2, 60)), draw(st.integers(1, 25))
    return make(np.random.default_rng(draw(st.integers(0, 10**6))), rows, columns)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(points=clouds(), k=st.integers(1, 12))
def test_mdav_equals_the_reference(points, k):
    k = min(k, len(points))
    assert np.array_equal(mdav(points, k), plain_mdav(points, k))


@settings(max_examples=300, deadline=None)
@given(points=clouds(), k=st.integers(2, 8), gamma=st.sampled_from([0.0, 0.2, 0.9, 1.1, 3.0]))
def test_v_mdav_equals_the_reference(points, k, gamma):
    k = min(k, len(points))
    assert np.array_equal(v_mdav(points, k, gamma), plain_v_mdav(points, k, gamma))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(("rows", "columns", "k"), [(600, 7, 5), (601, 130, 4), (350, 300, 7)])
def test_mdav_of_many_records_equals_the_reference(make, rows, columns, k):
    points = make(np.random.default_rng(5), rows, columns)
    assert np.array_equal(mdav(points, k), plain_mdav(points, k))
    assert np.array_equal(v_mdav(points, k, 0.8), plain_v_mdav(points, k, 0.8))


@settings(deadline=None)
@given(points=clouds(), k=st.integers(1, 10))
def test_every_record_is_in_a_group_of_at_least_k(points, k):
    k = min(k, len(points))
    for labels in (mdav(points, k), v_mdav(points, k, 0.5)):
        assert labels.min() == 0
        assert np.bincount(labels).min() >= k


@settings(deadline=None)
@given(points=clouds())
def test_distances_do_not_depend_on_other_records(points):
    """The few records that are compared again get exactly the distances of the reference."""
    center = points[0]
    alone = [squared_distances(points[place : place + 1], center)[0] for place in range(len(points))]
    assert np.array_equal(squared_distances(points, center), alone)


def test_memory_layout_does_not_matter():
    points = scattered(np.random.default_rng(0), 90, 12)
    assert np.array_equal(mdav(np.asfortranarray(points), 4), mdav(points, 4))
