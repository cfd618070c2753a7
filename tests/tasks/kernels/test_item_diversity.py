"""Test (1,l)- and (b,l)-diversity: deficient items and sets, additions and decoys."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels import item_diversity
from tasks.kernels.item_diversity import (
    Holders,
    TooManySets,
    draw_decoys,
    find_deficient_sets,
    require_examinable,
    top_up_items,
    top_up_sets,
)


def csr(rows):
    return sp.csr_array(np.array(rows, np.float32))


def holding(rows):
    """Collect holders from blocks of two groups."""
    matrix = sp.csr_array(rows)

    def blocks():
        for start in range(0, matrix.shape[0], 2):
            some = matrix[start : start + 2]
            yield some.indices, np.diff(some.indptr)

    return Holders.collect(blocks, matrix.shape[1])


def flat(groups):
    return lambda items: np.ones((groups, len(items)), np.float32)


def test_top_up_uses_groups_of_lowest_variance():
    holds = csr([[1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 0]])
    variances = np.array([[9, 9, 9], [9, 0.2, 0.5], [9, 0.1, 9], [9, 0.3, 0.4]], np.float32)
    for cells in (1, 8, 1024):
        added = top_up_items(holding(holds), 2, lambda items: variances[:, items], cells)
        assert sorted(zip(added.item.tolist(), added.group.tolist(), strict=True)) == [(1, 2), (2, 3)]


def test_no_deficit_adds_nothing():
    added = top_up_items(holding(csr([[1, 1], [1, 1]])), 2, flat(2))
    assert len(added.item) == 0
    assert added.complete


def test_decoys_dilute_concentrated_raters():
    # Ten groups of five; six of fifty people rated the item. Spread over six groups, as chance has it, or all in two.
    sizes, raters, rng = np.full(10, 5), np.array([6]), np.random.default_rng(0)
    spread_out, together = (csr([[float(group < held)] for group in range(10)]) for held in (6, 2))
    independent = 0.12 / (1 - 0.88**5)  # 0.254: what a member's chance would be without similarity
    assert len(draw_decoys(holding(spread_out), raters, sizes, 0.01, rng).group) == 0
    added = draw_decoys(holding(together), raters, sizes, 0.01, rng)
    assert len(set(added.group.tolist())) == len(added.group) == 3
    assert added.group.min() >= 2  # groups that do not hold it yet
    assert 6 / (5 * 5) <= independent + 0.01 < 6 / (5 * 4)


def test_decoys_differ_with_the_generator():
    sizes, raters = np.full(40, 5), np.array([30])
    together = csr([[float(group < 6)] for group in range(40)])
    one, same, other = (
        draw_decoys(holding(together), raters, sizes, 0.01, np.random.default_rng(n)).group.tolist()
        for n in (1, 1, 2)
    )
    assert one == same != other


def test_item_in_all_groups_needs_no_decoy():
    sizes, rng = np.array([5, 5]), np.random.default_rng(0)
    assert len(draw_decoys(holding(csr([[1], [1]])), np.array([10]), sizes, 0.0, rng).group) == 0


def test_rated_pairs_in_too_few_groups_are_found():
    rated = csr([[1, 1, 0, 0], [0, 0, 1, 1]])  # pairs (0,1) and (2,3); no user rated (0,2) together
    holds = csr([[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1]])
    assert find_deficient_sets(rated, holds, 2, 2).tolist() == [[2, 3]]
    added = top_up_sets(holds, np.array([[2, 3]]), 2, flat(3), budget=5)
    assert added.complete
    assert list(zip(added.group.tolist(), added.item.tolist(), strict=True)) == [(0, 3)]


def test_no_deficient_set_adds_nothing():
    added = top_up_sets(csr([[1, 1]]), np.zeros((0, 2), np.int64), 2, flat(1), budget=5)
    assert (len(added.group), added.complete) == (0, True)


def test_exhausted_budget_is_reported():
    rated = csr([[1] * 6])
    holds = csr(np.eye(6).tolist())
    added = top_up_sets(holds, find_deficient_sets(rated, holds, 2, 3), 3, flat(6), budget=3)
    assert not added.complete


@pytest.mark.parametrize(
    ("limit", "size", "count"),
    [("MAX_LISTED_SETS", 3, 20), ("MAX_COUNTED_PAIRS", 2, 15), ("MAX_REPAIR_CELLS", 2, 15)],
)
def test_too_many_sets_are_refused(monkeypatch, limit, size, count):
    require_examinable(np.array([6]), np.array([5, 6]), size, 6)
    monkeypatch.setattr(item_diversity, limit, 10)
    with pytest.raises(TooManySets) as problem:
        require_examinable(np.array([6]), np.array([1, 1]), size, 6)
    assert problem.value.count == count


@settings(deadline=None)  # the first example compiles the kernel
@given(st.integers(0, 5000))
def test_holders_are_the_columns_of_the_matrix(seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((7, 5)) < 0.4
    holders = holding(dense.astype(np.int8))
    assert [holders.groups_of(item).tolist() for item in range(5)] == [
        np.flatnonzero(c).tolist() for c in dense.T
    ]
    assert holders.members(np.arange(7)).tolist() == (np.arange(7) @ dense).tolist()
    group, item = np.nonzero(~dense & (rng.random((7, 5)) < 0.3))
    more = holders.with_additions(item_diversity.Additions(group, item, True))
    dense[group, item] = True
    assert np.array_equal(more.matrix().toarray(), dense)
    assert more.matrix().has_sorted_indices


@given(st.integers(0, 5000), st.integers(2, 3), st.integers(1, 3))
def test_top_up_puts_every_rated_set_in_l_groups(seed, size, least):
    rng = np.random.default_rng(seed)
    rated = (rng.random((5, 6)) < 0.6).astype(np.float32)
    holds = ((rng.random((4, 6)) < 0.5) | (rng.random((4, 1)) < 0.2)).astype(np.float32)
    lacking = find_deficient_sets(sp.csr_array(rated), sp.csr_array(holds), size, least)
    wanted = {s for row in rated for s in combinations(np.flatnonzero(row).tolist(), size)}
    expected = sorted(s for s in wanted if (holds[:, list(s)] > 0).all(axis=1).sum() < least)
    assert sorted(map(tuple, lacking.tolist())) == expected
    variances = rng.random((4, 6)).astype(np.float32)
    added = top_up_sets(sp.csr_array(holds), lacking, least, lambda items: variances[:, items], budget=1000)
    assert (holds[added.group, added.item] == 0).all()  # only cells that were not there
    holds[added.group, added.item] = 1
    assert all((holds[:, list(s)] > 0).all(axis=1).sum() >= least for s in wanted)
