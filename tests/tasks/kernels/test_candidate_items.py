"""Test the choice of items to add: eligible items, quotas and selection, by hand and as invariants."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tasks.kernels import candidate_items

RATINGS = sp.csr_array(np.array([[5, 4, 0, 1], [3, 3, 0, 0], [1, 2, 5, 0], [0, 4, 3, 2]], np.float32))


def bits(*rows):
    return candidate_items.pack_bits(np.array(rows, bool))


def test_bits_count_from_the_lowest():
    assert bits([1, 0, 1], [0, 0, 0], [1, 1, 1])[:, 0].tolist() == [0b101, 0, 0b111]
    wide = np.zeros((1, 70), bool)
    wide[0, [0, 63, 64, 69]] = True
    assert candidate_items.pack_bits(wide).tolist() == [[1 + 2**63, 1 + 2**5]]
    assert candidate_items.count_eligible(candidate_items.pack_bits(wide)).tolist() == [4]
    assert candidate_items.list_eligible(candidate_items.pack_bits(wide))[1].tolist() == [0, 63, 64, 69]


def test_rated_items_are_not_eligible():
    found = candidate_items.find_eligible(RATINGS, np.array([3, 0, 2]))
    row, place = candidate_items.list_eligible(found)
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [(0, 2), (1, 0), (1, 2), (2, 0), (3, 1)]


def test_eligible_items_are_similar_to_a_rated_one():
    # Places: item 3, item 0. Item 1 is similar to item 0, item 2 to item 3.
    similar = bits([0, 0], [0, 1], [1, 0], [0, 0])
    row, place = candidate_items.list_eligible(
        candidate_items.find_eligible(RATINGS, np.array([3, 0]), similar)
    )
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [(2, 0), (3, 1)]


DRAWS = np.array([0.9, 0.1, 0.5])


def test_quota_above_a_ceiling_goes_to_other_users():
    ceilings = np.array([3, 1, 5])
    assert candidate_items.allocate_quotas(5, ceilings, DRAWS).tolist() == [2, 1, 2]
    assert candidate_items.allocate_quotas(6, ceilings, DRAWS).tolist() == [2, 1, 3]  # the lower draw
    assert candidate_items.allocate_quotas(8, ceilings, DRAWS).tolist() == [3, 1, 4]
    assert candidate_items.allocate_quotas(99, ceilings, DRAWS).tolist() == [3, 1, 5]
    assert candidate_items.allocate_quotas(0, ceilings, DRAWS).tolist() == [0, 0, 0]
    assert candidate_items.allocate_quotas(1, ceilings, DRAWS).tolist() == [0, 1, 0]


def test_proportional_quotas():
    ceilings, weights = np.array([9, 9, 3]), np.array([1, 1, 4])
    assert candidate_items.allocate_quotas(6, ceilings, DRAWS, weights).tolist() == [1, 2, 3]
    assert candidate_items.allocate_quotas(3, np.full(3, 9), DRAWS, weights).tolist() == [0, 1, 2]


@given(st.data())
def test_quotas_sum_to_total_within_ceilings(data):
    people = data.draw(st.integers(1, 20))
    numbers = st.lists(st.integers(0, 9), min_size=people, max_size=people)
    ceilings, weights = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    total = data.draw(st.integers(0, 100))
    draws = np.random.default_rng(data.draw(st.integers(0, 99))).random(people)
    for weighs in (None, weights):
        found = candidate_items.allocate_quotas(total, ceilings, draws, weighs)
        assert found.sum() == min(total, ceilings.sum())
        assert (found <= ceilings).all()
        assert (found >= 0).all()
    equal = candidate_items.allocate_quotas(total, ceilings, draws)
    below = equal[equal < ceilings]
    assert len(below) == 0 or equal.max() - below.min() <= 1


def test_quotas_do_not_depend_on_user_order():
    rng = np.random.default_rng(0)
    ceilings, weights, draws = rng.integers(0, 9, 50), rng.integers(1, 30, 50), rng.random(50)
    order = rng.permutation(50)
    for weighs in (None, weights):
        found = candidate_items.allocate_quotas(120, ceilings, draws, weighs)
        other = None if weighs is None else weighs[order]
        assert (
            candidate_items.allocate_quotas(120, ceilings[order], draws[order], other).tolist()
            == found[order].tolist()
        )


def test_preferred_positions_and_ties():
    levels = np.array([0, 1, 1, 2])
    everything = bits(*[[1, 1, 1, 1]] * 4, [0, 1, 0, 1])
    row, place, tied_row, tied = candidate_items.take_preferred(everything, levels, np.array([0, 1, 2, 3, 2]))
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [
        (1, 0),
        (2, 0),
        (3, 0), (3, 1), (3, 2),
        (4, 1), (4, 3),
    ]  # fmt: skip
    assert list(zip(tied_row.tolist(), tied.tolist(), strict=True)) == [(2, 1), (2, 2)]


def test_lowest_keys_of_each_row():
    rows, keys = np.array([0, 0, 0, 2, 2]), np.array([3.0, 1.0, 2.0, 5.0, 5.0])
    assert candidate_items.mark_lowest(rows, keys, np.array([2, 4, 1])).tolist() == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert candidate_items.mark_lowest(rows, keys, np.array([9, 9, 9])).all()
    assert not candidate_items.mark_lowest(rows, keys, np.array([0, 0, 0])).any()


@given(st.integers(0, 10**6))
def test_lowest_keys_equal_sorting(seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, 5, 60))
    keys, quota = rng.integers(0, 40, 60).astype(float), rng.integers(0, 20, 5)
    chosen = candidate_items.mark_lowest(rows, keys, quota)
    for u in range(5):
        taken, all_ = np.sort(keys[chosen & (rows == u)]), np.sort(keys[rows == u])
        assert taken.tolist() == all_[: quota[u]].tolist()


@given(st.integers(0, 10**6))
def test_preferred_positions_equal_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    may = rng.random((6, 80)) < 0.3
    levels = np.cumsum(rng.random(80) < 0.5)
    quota = np.minimum(rng.integers(0, 40, 6), may.sum(axis=1))
    row, place, tied_row, tied = candidate_items.take_preferred(candidate_items.pack_bits(may), levels, quota)
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


def test_empty_item_list_has_no_candidates():
    assert candidate_items.find_eligible(RATINGS, np.empty(0, int)).shape == (4, 0)
    assert (
        candidate_items.count_eligible(candidate_items.find_eligible(RATINGS, np.empty(0, int))).tolist()
        == [0] * 4
    )
    assert pytest.approx(0) == candidate_items.allocate_quotas(3, np.zeros(4, int), np.full(4, 0.5)).sum()
