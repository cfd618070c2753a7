"""Test which counts of raters may be published: hand-worked items, and what holds for any counts."""

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
    published_cells,
    spread_of_items,
)


def counted(table, sizes):
    table = np.asarray(table)
    group, item = np.nonzero(table)
    return Counts(group, item, table[group, item], np.asarray(sizes), table.shape[1])


def test_limits_by_hand():
    found = limits(np.array([0.0, 0.3, 0.45, 0.8, 0.9, 1.0]))
    assert found == pytest.approx([0.5, 0.5, 0.55, 0.9, 0.95, 1.0])


def drawn(seed=0):
    return np.random.default_rng(seed)


def test_counts_between_c_and_half_of_the_group_are_published():
    """Forty groups of ten; a rare item: 2, 3, 4, 5 and 6 raters in five groups, nobody elsewhere."""
    table = np.zeros((40, 1), int)
    table[:5, 0] = [2, 3, 4, 5, 6]
    counts = counted(table, [10] * 40)
    shown = published_cells(counts, 3, drawn())
    assert counts.raters[shown].tolist() == [3, 4, 5]


def test_an_item_of_all_or_half_of_the_groups_leaves_the_half_out():
    """One group of ten rated the item, half of six others: with the blank cells the limit is (65 / 70 ...).

    Popularity is 40 / 70 = .571, the limit .671. One group alone has the share 1; with m others (10 + 5m) / (10 + 10m)
    is at most .671 from m = 2 on.
    """
    table = np.full((7, 1), 5)
    table[0, 0] = 10
    counts = counted(table, [10] * 7)
    assert int(published_cells(counts, 3, drawn()).sum()) <= 4


def test_as_few_as_possible_are_left_out():
    """Of 40 groups of twenty 12 have 15 raters, the others 8. Popularity is .505, the limit .605.

    (180 + 8m) / (240 + 20m) is at most .605 from m = 9 on; the beta-binomial law needs fewer.
    """
    table = np.array([15] * 12 + [8] * 28)[:, None]
    counts = counted(table, [20] * 40)
    assert int((180 + 8 * 8) > 0.605 * (240 + 160)) == 1
    assert int((180 + 8 * 9) > 0.605 * (240 + 180)) == 0
    shown = published_cells(counts, 3, drawn())
    # Both activity classes and the whole are examined; groups of one class of activity have one count here.
    assert (28 - shown.sum()) >= 9
    assert set(counts.raters[shown].tolist()) <= {8}


def test_classes_of_activity():
    table = np.repeat(np.arange(1, 41), 1)[:, None]
    assert np.bincount(activity_classes(counted(table, [50] * 40))).tolist() == [10, 10, 10, 10]
    assert activity_classes(counted(table[:39], [50] * 39)).max() == 0


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
    groups, items = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(10, 19), min_size=groups, max_size=groups))
    cells = [[draw(st.integers(0, n)) for _ in range(items)] for n in sizes]
    return np.array(cells), np.array(sizes)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_no_blank_cell_is_more_certain_than_allowed(given_counts):
    table, sizes = given_counts
    counts = counted(table, sizes)
    shown = np.zeros(table.shape, bool)
    kept = published_cells(counts, 3, drawn())
    shown[counts.group[kept], counts.item[kept]] = True
    assert (2 * table[shown] <= np.broadcast_to(sizes[:, None], table.shape)[shown]).all()
    assert (table[shown] >= 3).all()
    for item in range(table.shape[1]):
        blank = ~shown[:, item]
        popularity = table[:, item].sum() / sizes.sum()
        if blank.any():
            believed = table[blank, item].sum() / sizes[blank].sum()
            assert believed <= limits(np.array([popularity]))[0] + 1e-9


def test_blank_cells_are_exchangeable():
    """Three groups of ten, one item, counts 8, 3 and 3: one of the 3s is left out. Whichever cells are blank, the 8 is
    in the first of them as often as in the second: what is published does not distinguish them."""
    seen = {}
    for high in range(3):
        table = np.full((3, 1), 3)
        table[high, 0] = 8
        for seed in range(300):
            shown = published_cells(counted(table, [10] * 3), 3, drawn(seed))
            blank = tuple(np.flatnonzero(~shown).tolist())
            seen.setdefault(blank, []).append(high)
    pairs = {blank: where for blank, where in seen.items() if len(blank) == 2}
    assert len(pairs) == 3
    for (first, second), where in pairs.items():
        share = np.mean(np.array(where) == first)
        assert set(where) == {first, second}
        assert abs(share - 0.5) < 0.12
