"""What may be added, how many each gets, which ones: by hand, and invariants."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tasks.kernels import additions

RATINGS = sp.csr_array(np.array([[5, 4, 0, 1], [3, 3, 0, 0], [1, 2, 5, 0], [0, 4, 3, 2]], np.float32))


def bits(*rows):
    return additions.packed(np.array(rows, bool))


def test_bits_count_from_the_lowest():
    assert bits([1, 0, 1], [0, 0, 0], [1, 1, 1])[:, 0].tolist() == [0b101, 0, 0b111]
    wide = np.zeros((1, 70), bool)
    wide[0, [0, 63, 64, 69]] = True
    assert additions.packed(wide).tolist() == [[1 + 2**63, 1 + 2**5]]
    assert additions.count(additions.packed(wide)).tolist() == [4]
    assert additions.cells(additions.packed(wide))[1].tolist() == [0, 63, 64, 69]


def test_nobody_is_given_what_was_rated():
    found = additions.eligible(RATINGS, np.array([3, 0, 2]))
    row, place = additions.cells(found)
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [(0, 2), (1, 0), (1, 2), (2, 0), (3, 1)]


def test_something_rated_must_be_similar():
    # Places: item 3, item 0. Item 1 is similar to item 0, item 2 to item 3.
    similar = bits([0, 0], [0, 1], [1, 0], [0, 0])
    row, place = additions.cells(additions.eligible(RATINGS, np.array([3, 0]), similar))
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [(2, 0), (3, 1)]


DRAWS = np.array([0.9, 0.1, 0.5])


def test_equal_quotas_leave_to_others_what_one_cannot_take():
    ceilings = np.array([3, 1, 5])
    assert additions.quotas(5, ceilings, DRAWS).tolist() == [2, 1, 2]
    assert additions.quotas(6, ceilings, DRAWS).tolist() == [2, 1, 3]  # the lower draw
    assert additions.quotas(8, ceilings, DRAWS).tolist() == [3, 1, 4]
    assert additions.quotas(99, ceilings, DRAWS).tolist() == [3, 1, 5]
    assert additions.quotas(0, ceilings, DRAWS).tolist() == [0, 0, 0]
    assert additions.quotas(1, ceilings, DRAWS).tolist() == [0, 1, 0]


def test_proportional_quotas():
    ceilings, weights = np.array([9, 9, 3]), np.array([1, 1, 4])
    assert additions.quotas(6, ceilings, DRAWS, weights).tolist() == [1, 2, 3]
    assert additions.quotas(3, np.full(3, 9), DRAWS, weights).tolist() == [0, 1, 2]


@given(st.data())
def test_quotas_sum_up_and_keep_to_ceilings(data):
    people = data.draw(st.integers(1, 20))
    numbers = st.lists(st.integers(0, 9), min_size=people, max_size=people)
    ceilings, weights = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    total = data.draw(st.integers(0, 100))
    draws = np.random.default_rng(data.draw(st.integers(0, 99))).random(people)
    for weighs in (None, weights):
        found = additions.quotas(total, ceilings, draws, weighs)
        assert found.sum() == min(total, ceilings.sum())
        assert (found <= ceilings).all()
        assert (found >= 0).all()
    equal = additions.quotas(total, ceilings, draws)
    below = equal[equal < ceilings]
    assert len(below) == 0 or equal.max() - below.min() <= 1


def test_quotas_belong_to_people_and_not_to_their_order():
    rng = np.random.default_rng(0)
    ceilings, weights, draws = rng.integers(0, 9, 50), rng.integers(1, 30, 50), rng.random(50)
    order = rng.permutation(50)
    for weighs in (None, weights):
        found = additions.quotas(120, ceilings, draws, weighs)
        other = None if weighs is None else weighs[order]
        assert additions.quotas(120, ceilings[order], draws[order], other).tolist() == found[order].tolist()


def test_the_first_places_and_the_tied_ones():
    levels = np.array([0, 1, 1, 2])
    everything = bits(*[[1, 1, 1, 1]] * 4, [0, 1, 0, 1])
    row, place, tied_row, tied = additions.first(everything, levels, np.array([0, 1, 2, 3, 2]))
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [
        (1, 0),
        (2, 0),
        (3, 0), (3, 1), (3, 2),
        (4, 1), (4, 3),
    ]  # fmt: skip
    assert list(zip(tied_row.tolist(), tied.tolist(), strict=True)) == [(2, 1), (2, 2)]


def test_the_lowest_keys_of_each():
    rows, keys = np.array([0, 0, 0, 2, 2]), np.array([3.0, 1.0, 2.0, 5.0, 5.0])
    assert additions.lowest(rows, keys, np.array([2, 4, 1])).tolist() == [False, True, True, True, False]
    assert additions.lowest(rows, keys, np.array([9, 9, 9])).all()
    assert not additions.lowest(rows, keys, np.array([0, 0, 0])).any()


@given(st.integers(0, 10**6))
def test_the_lowest_keys_against_sorting(seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, 5, 60))
    keys, quota = rng.integers(0, 40, 60).astype(float), rng.integers(0, 20, 5)
    chosen = additions.lowest(rows, keys, quota)
    for u in range(5):
        taken, all_ = np.sort(keys[chosen & (rows == u)]), np.sort(keys[rows == u])
        assert taken.tolist() == all_[: quota[u]].tolist()


@given(st.integers(0, 10**6))
def test_first_places_against_a_plain_walk(seed):
    rng = np.random.default_rng(seed)
    may = rng.random((6, 80)) < 0.3
    levels = np.cumsum(rng.random(80) < 0.5)
    quota = np.minimum(rng.integers(0, 40, 6), may.sum(axis=1))
    row, place, tied_row, tied = additions.first(additions.packed(may), levels, quota)
    for u in range(6):
        walk = np.flatnonzero(may[u])
        sure, left = place[row == u], tied[tied_row == u]
        if quota[u] == 0:
            assert len(sure) == len(left) == 0
            continue
        last = levels[walk[quota[u] - 1]]
        above = walk[levels[walk] < last]
        level = walk[levels[walk] == last]
        if len(above) + len(level) == quota[u]:
            assert sure.tolist() == [*above, *level]
            assert len(left) == 0
        else:
            assert sure.tolist() == above.tolist()
            assert left.tolist() == level.tolist()


def test_ratings_and_additions_together_keep_a_rating_of_nothing():
    ratings = sp.csr_array((np.array([0.0, -3.0], np.float32), [1, 0], [0, 1, 2]), shape=(2, 3))
    added = sp.csr_array((np.array([2.5, 0.0], np.float32), [0, 2], [0, 1, 2]), shape=(2, 3))
    both = additions.together(ratings, added)
    assert both.indptr.tolist() == [0, 2, 4]
    assert both.indices.tolist() == [0, 1, 0, 2]
    assert both.data.tolist() == [2.5, 0.0, -3.0, 0.0]


def test_recommendations_get_the_added_items_back():
    """Two people; the first was given item 7 with a 4.5 and item 8 with a 2, the second nothing."""
    recommended = np.array([[1, 2, 3], [4, 5, -1]])
    values = np.array([[5.0, 4.5, 4.0], [3.0, 2.0, 0.0]], np.float32)
    added = sp.csr_array((np.array([4.5, 2.0], np.float32), [7, 8], [0, 2, 2]), shape=(2, 9))
    items, worth = additions.put_back(recommended, values, added)
    assert items.tolist() == [[1, 2, 7], [4, 5, -1]]
    assert worth.tolist() == [[5.0, 4.5, 4.5], [3.0, 2.0, -np.inf]]


def test_put_back_keeps_every_place_there_is():
    added = sp.csr_array((np.array([3.0], np.float32), [2], [0, 1]), shape=(1, 4))
    items, _ = additions.put_back(np.array([[-1, -1]]), np.zeros((1, 2)), added)
    assert items.tolist() == [[2, -1]]
    assert additions.put_back(np.empty((1, 0), int), np.empty((1, 0)), added)[0].shape == (1, 0)


def test_items_that_are_asked_of_nobody():
    assert additions.eligible(RATINGS, np.empty(0, int)).shape == (4, 0)
    assert additions.count(additions.eligible(RATINGS, np.empty(0, int))).tolist() == [0] * 4
    assert pytest.approx(0) == additions.quotas(3, np.zeros(4, int), np.full(4, 0.5)).sum()
