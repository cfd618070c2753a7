"""Test the attack on the columns of items with up to 20 raters."""

import made_releases as made
import numpy as np
import pytest

from checks import gate
from checks.attacks import rare_items
from checks.opinions.raters import opinions_of
from checks.registry import registered

USERS, COMMON = 200, 40


def rated(raters: dict[int, int], seed: int = 0):
    """Ratings of 40 common items, and of rare ones: number of raters → number of items."""
    draw = np.random.default_rng(seed)
    common = made.synthetic(users=USERS, items=COMMON, density=0.5)
    rows, columns = [np.repeat(np.arange(USERS), np.diff(common.indptr))], [common.indices]
    item = COMMON
    for number, items in raters.items():
        for _ in range(items):
            rows.append(draw.choice(USERS, number, replace=False))
            columns.append(np.full(number, item))
            item += 1
    values = [common.data, draw.integers(1, 6, sum(map(len, rows[1:]))).astype(float)]
    return made.csr(np.concatenate(rows), np.concatenate(columns), np.concatenate(values), (USERS, item))


def release(ratings, level, **changes):
    """Forty groups whose columns have these levels."""
    draw = np.random.default_rng(7)
    values = 3 + draw.normal(0, 0.3, (40, 1)) + level + draw.normal(0, 0.1, (40, ratings.shape[1]))
    clipped = np.clip(values, 1, 5).astype(np.float32)
    return made.Made(ratings, np.arange(USERS) % 40, clipped, k=5, step=0.01).but(**changes)


def opinions(ratings):
    """Each rating less the mean of the person's others, as a table; NaN: not rated."""
    table = ratings.toarray()
    table[table == 0] = np.nan
    count, total = (~np.isnan(table)).sum(axis=1, keepdims=True), np.nansum(table, axis=1, keepdims=True)
    return table - (total - table) / (count - 1)


def result(made_release, tmp_path):
    return gate.run_check(registered()["rare-items"], made.case(made_release, tmp_path / "release"), 0.5)


def random_level(ratings, seed=3):
    return np.random.default_rng(seed).normal(0, 0.4, ratings.shape[1])


def test_opinions_by_hand(tmp_path):
    table = np.array([[5, 3, 1, 0], [4, 2, 0, 0], [3, 0, 0, 2], [1, 1, 0, 4]])
    rows, columns = np.nonzero(table)
    ratings = made.csr(rows, columns, table[rows, columns], table.shape)
    case = made.case(made.Made(ratings, np.array([0, 0, 1, 1]), np.full((2, 4), 3.0), k=2), tmp_path / "r")
    found = opinions_of(case.truth, np.array([2, 3]))
    # Item 2: 1 − 4. Item 3: 2 − 3 and 4 − 1.
    listed = zip(
        found.item.tolist(), found.own.tolist(), found.others.tolist(), found.alone.tolist(), strict=True
    )
    assert sorted(listed) == [(2, -3.0, 0.0, True), (3, -1.0, 3.0, False), (3, 3.0, -1.0, False)]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("items", [60, 400])
def test_three_rater_columns_that_repeat_one_rater_fail(tmp_path, items, sign):
    """The first of three raters, whoever that is: on average over the raters r is only 0.4."""
    ratings = rated({3: items})
    known = opinions(ratings)
    level = random_level(ratings)
    for item in range(COMMON, ratings.shape[1]):
        level[item] = sign * 0.4 * known[:, item][~np.isnan(known[:, item])][0]
    found = result(release(ratings, level), tmp_path)
    assert (found.passed, found.applicable) == (False, True)
    assert "nearest rater" in found.detail


def test_many_columns_that_repeat_the_busiest_rater_fail(tmp_path):
    """On average over the three raters r is below 0.5 even at the upper bound; the busiest rater's is 1."""
    ratings = rated({3: 900})
    known, activity = opinions(ratings), np.diff(ratings.indptr)
    level = random_level(ratings)
    for item in range(COMMON, ratings.shape[1]):
        people = np.flatnonzero(~np.isnan(known[:, item]))
        level[item] = 0.4 * known[people[activity[people].argmax()], item]
    found = result(release(ratings, level), tmp_path)
    assert not found.passed
    assert "2 of 4 parts" in found.detail  # the rater with the most ratings, and the nearest one
    assert found.observed > 0.9


def test_a_leak_among_few_of_many_items_fails(tmp_path):
    """Thirty two-rater items follow their raters; six hundred others hide them in the average."""
    ratings = rated({2: 30, 3: 300, 8: 300})
    level = random_level(ratings)
    known = np.nanmean(opinions(ratings), axis=0)
    level[COMMON : COMMON + 30] = 0.5 * known[COMMON : COMMON + 30]
    found = result(release(ratings, level), tmp_path)
    assert not found.passed
    assert "2 raters" in found.detail


def test_twenty_rater_columns_that_follow_the_mean_fail(tmp_path):
    """Whoever knows nineteen of twenty raters reads the last one off an exact mean."""
    ratings = rated({20: 120})
    level = np.nan_to_num(np.nanmean(opinions(ratings), axis=0))
    assert not result(release(ratings, level), tmp_path).passed


@pytest.mark.parametrize("seed", range(4))
def test_columns_without_opinions_pass(tmp_path, seed):
    ratings = rated({1: 120, 2: 40, 3: 70, 5: 100, 9: 110, 15: 30})
    found = result(release(ratings, random_level(ratings, seed)), tmp_path)
    assert (found.passed, found.applicable) == (True, True), found.detail
    assert found.n == 120 + 80 + 210 + 500 + 990 + 450
    # Below three raters 40 items join 120; then 70 join 100, and 30 join 110.
    assert [outcome.more["items"] for outcome in found.outcomes] == [160, 170, 140]


def test_columns_that_are_all_the_same_reveal_nothing(tmp_path):
    ratings = rated({1: 20, 2: 20})
    made_release = release(ratings, np.zeros(ratings.shape[1]))
    made_release.values[:, COMMON:] = made_release.values[:, :COMMON].mean(axis=1, keepdims=True)
    found = result(made_release, tmp_path)
    assert (found.passed, found.applicable, found.observed) == (True, False, 0.0)
    assert "all the same" in found.detail


def test_flat_columns_do_not_hide_others(tmp_path):
    """Two hundred flat one-rater columns beside a hundred three-rater columns that follow their raters."""
    ratings = rated({1: 200, 3: 100})
    level = random_level(ratings)
    level[-100:] = 0.5 * np.nanmean(opinions(ratings), axis=0)[-100:]
    made_release = release(ratings, level)
    made_release.values[:, COMMON : COMMON + 200] = 3.0
    found = result(made_release, tmp_path)
    assert not found.passed
    assert found.n == 300
    assert "columns of 200 are all the same" in found.detail


def test_popular_items_are_not_rare(tmp_path):
    ratings = rated({30: 20})
    found = result(release(ratings, random_level(ratings)), tmp_path)
    rare = int((np.bincount(ratings.indices) <= rare_items.MOST_RATERS).sum())
    assert rare == 0
    assert (found.passed, found.applicable, found.n) == (True, False, 0)


def test_few_items_with_enough_raters_are_judged_at_the_lower_bound(tmp_path):
    """Thirty items: the upper bound would refuse columns that reveal nothing; a leak is still found."""
    ratings = rated({4: 30})
    passed = result(release(ratings, random_level(ratings)), tmp_path / "harmless")
    assert (passed.passed, passed.applicable) == (True, True)
    level = np.nan_to_num(np.nanmean(opinions(ratings), axis=0))
    assert not result(release(ratings, level), tmp_path / "leak").passed


def test_few_items_below_the_least_number_of_raters_must_show_little(tmp_path):
    """Nothing of an item with two raters may be published, so twenty such items are judged at the upper bound."""
    ratings = rated({2: 20})
    level = 0.3 * np.nan_to_num(np.nanmean(opinions(ratings), axis=0)) + random_level(ratings)
    assert not result(release(ratings, level), tmp_path).passed


def test_very_few_items_are_not_judged(tmp_path):
    ratings = rated({4: 3, 15: 2})
    found = result(release(ratings, random_level(ratings)), tmp_path)
    assert (found.passed, found.applicable) == (True, False)
    assert "5 are too few" in found.detail
