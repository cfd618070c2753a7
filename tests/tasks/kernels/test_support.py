"""Test what is shown of counts of raters: hand-worked items, and what holds for any counts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from tasks.kernels.support import (
    Counts,
    _beta_binomial,
    activity_classes,
    limits,
    shown_counts,
    spread_of_items,
    strata_of_groups,
    top_codes,
)


def counted(table, sizes):
    table = np.asarray(table)
    group, item = np.nonzero(table)
    return Counts(group, item, table[group, item], np.asarray(sizes), table.shape[1])


def shown(table, sizes, c=3):
    """Return what is shown as a table; 0: blank."""
    counts = counted(table, sizes)
    found = np.zeros(np.shape(table), int)
    found[counts.group, counts.item] = shown_counts(counts, c)
    return found


def test_limits_by_hand():
    found = limits(np.array([0.0, 0.3, 0.45, 0.8, 0.9, 1.0]))
    assert found == pytest.approx([0.5, 0.5, 0.55, 0.9, 0.95, 1.0])


def test_counts_from_c_on_are_shown_rounded_down():
    """Forty groups of twenty; a rare item: 2 to 6 raters in five groups, and half of the members of one."""
    table = np.zeros((40, 1), int)
    table[:6, 0] = [2, 3, 4, 5, 6, 10]
    assert shown(table, [20] * 40)[:6, 0].tolist() == [0, 3, 3, 3, 6, 9]


def test_a_count_above_half_of_the_group_shows_the_top_code():
    """Twelve groups of twenty: 14, 9, 7, 6 raters, and 1 in each of eight. Popularity is .18, so the limit 1/2.

    From 9 on: 23 of 40 are above it; from 7 on 30 of 60 are not. Fitted to these counts, the law expects .448 of the
    members of a group with 6 or more to be raters, and .513 with 7 or more: the top code is 6.
    """
    table = np.array([14, 9, 7, 6] + [1] * 8)[:, None]
    popularity, correlation = spread_of_items(counted(table, [20] * 12))
    strength = 1 / correlation[0] - 1
    chance = betabinom.pmf(np.arange(21), 20, popularity[0] * strength, (1 - popularity[0]) * strength)

    def expected(least):
        return chance[least:] @ np.arange(least, 21) / chance[least:].sum() / 20

    largest = max(t for t in (1, 6, 7) if expected(t) <= 0.5)
    assert shown(table, [20] * 12)[:, 0].tolist()[:4] == [min(x, largest) for x in (14, 9, 7, 6)]
    assert not shown(table, [20] * 12)[4:].any()


def test_between_two_counts_that_occur_the_top_code_is_the_largest():
    """Two groups of ten with 4 and 6 raters, ten without any: popularity .08, and 10 of 20 from 4 on is the limit."""
    table = np.array([6, 4] + [0] * 10)[:, None]
    assert top_codes(counted(table, [10] * 12))[0] <= 4


def test_counts_from_the_top_code_on_show_it_though_they_would_be_rounded_lower():
    """With a top code of 10, both 10 and 11 show 10, not 9: all of them must look the same."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        table = draw.binomial(20, draw.beta(1.2, 1.8, (60, 1)))
        top = top_codes(counted(table, [20] * 60))[0]
        found = shown(table, [20] * 60)
        if top >= 3:
            assert (found[table >= top] == top).all()
            assert (found[(table < top) & (table >= 3)] < top).all()


def test_where_the_top_code_would_be_below_c_nothing_is_shown():
    """All members of one group of ten, two in each of three: the limit is 1/2, and all ten of the one group alone are
    above it; together with the three it is 16 of 40, but fewer than c."""
    table = np.array([10] + [2] * 3 + [0] * 30)[:, None]
    assert 0 <= top_codes(counted(table, [10] * 34))[0] <= 2
    assert not shown(table, [10] * 34).any()


def test_classes_of_activity():
    table = np.repeat(np.arange(1, 41), 1)[:, None]
    assert np.bincount(activity_classes(counted(table, [50] * 40))).tolist() == [10, 10, 10, 10]
    assert activity_classes(counted(table[:39], [50] * 39)).max() == 0


def test_sizes_that_few_groups_have_are_one_stratum():
    sizes = [20] * 12 + [21] * 10 + [22, 23, 24]
    _, _, by_size = strata_of_groups(counted(np.ones((25, 1), int), sizes))
    assert sorted(np.bincount(by_size).tolist()) == [3, 10, 12]


def test_beta_binomial_is_scipys():
    popularity, correlation = np.array([0.02, 0.4, 0.9]), np.array([1e-3, 0.1, 0.5])
    strength = 1 / correlation - 1
    for n in (10, 23):
        expected = betabinom.pmf(
            np.arange(n + 1)[None, :],
            n,
            (popularity * strength)[:, None],
            ((1 - popularity) * strength)[:, None],
        )
        assert _beta_binomial(n, popularity, correlation) == pytest.approx(expected, abs=1e-9)


def test_spread_by_moments():
    """Counts drawn from the law have its correlation, nearly."""
    draw = np.random.default_rng(0)
    rate = draw.beta(0.3 * 4, 0.7 * 4, (4000, 1))  # ρ = 1 / (4 + 1)
    table = draw.binomial(20, np.repeat(rate, 1, axis=1))
    popularity, correlation = spread_of_items(counted(table, [20] * 4000))
    assert popularity[0] == pytest.approx(0.3, abs=0.02)
    assert correlation[0] == pytest.approx(0.2, abs=0.02)


@st.composite
def tables(draw):
    """Draw groups, few or so many that they have classes of activity, and items of any popularity."""
    groups, items = draw(st.sampled_from([1, 2, 5, 12, 45])), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = rng.integers(10, draw(st.sampled_from([11, 13, 20])), groups)
    rate = np.where(
        rng.random((groups, items)) < 0.5, rng.random((groups, items)), rng.random(items)[None, :]
    )
    rate[:, 0] = draw(st.sampled_from([0, 0.5, 1])) if draw(st.booleans()) else rate[:, 0]
    return rng.binomial(sizes[:, None], rate), sizes


@settings(max_examples=150, deadline=None)
@given(tables())
def test_no_cell_is_more_certain_than_allowed(given_counts):
    """The posterior of who knows all counts of an item is the mean of the cells that show the same, in every stratum;
    by a plain loop."""
    table, sizes = given_counts
    found = shown(table, sizes)
    strata = list(strata_of_groups(counted(table, sizes)))
    assert not found[table < 3].any()
    assert (found <= table).all()
    for item, labels in itertools.product(range(table.shape[1]), strata):
        if not found[:, item].any():
            continue
        assert (found[table[:, item] >= 3, item] >= 3).all(), (
            "where an item shows counts, blank means below c"
        )
        highest = found[:, item].max()
        for stratum in np.unique(labels):
            inside = labels == stratum
            limit = limits(np.array([table[inside, item].sum() / sizes[inside].sum()]))[0]
            for value in np.unique(found[inside, item]):
                same = inside & (found[:, item] == value)
                assert table[same, item].sum() <= limit * sizes[same].sum() + 1e-6
                if value < highest:
                    assert (table[same, item] <= limit * sizes[same] + 1e-6).all()
                    assert (table[same, item] // 3 * 3 == value).all()


@settings(max_examples=50, deadline=None)
@given(tables(), st.integers(0, 2**32))
def test_groups_that_show_the_same_can_exchange_their_counts(given_counts, seed):
    """The proof's exchange: two cells of one item and size that show the same, in one class of activity or with their
    classes exchanged, give the same publication."""
    table, sizes = given_counts
    table, sizes = table[:, :1], sizes
    found, rng = shown(table, sizes), np.random.default_rng(seed)
    for size, value in itertools.product(np.unique(sizes), np.unique(found)):
        same = np.flatnonzero((sizes == size) & (found[:, 0] == value))
        exchanged = table.copy()
        exchanged[same] = table[rng.permutation(same)]
        assert (shown(exchanged, sizes) == found).all()
