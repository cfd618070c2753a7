"""Test when a published value is a person's rating: by hand, and against counting one by one."""

import made_releases as made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.evidence.rating_levels import ItemRatings, RatingLevels

STARS = RatingLevels(1.0, 0.5, True)


@pytest.fixture
def truth(tmp_path):
    """Return a truth with these ratings (users × items, NaN: not rated)."""

    def build(table, scale=(1.0, 5.0)):
        table = np.array(table, float)
        rows, columns = np.nonzero(~np.isnan(table))
        ratings = made.csr(rows, columns, table[rows, columns], table.shape)
        values = np.full((1, table.shape[1]), sum(scale) / 2, np.float32)
        release = made.Made(ratings, np.zeros(len(table), int), values, k=2, scale=scale)
        return made.case(release, tmp_path / "x").truth

    return build


def test_a_half_way_value_is_right_for_one_of_two():
    published = np.float32(1) + np.arange(41, dtype=np.float32) * np.float32(0.1)  # as a release stores them
    right = np.array([STARS.same(published, np.full(41, rating)) for rating in range(1, 6)])
    assert right.sum(axis=0).tolist() == [1] * 41
    of = {
        round(float(value), 1): rating
        for value, rating in zip(published, right.argmax(axis=0) + 1, strict=True)
    }
    assert [of[value] for value in (1.5, 2.5, 3.5, 4.5)] == [1, 3, 3, 5]
    assert (of[2.4], of[2.6], of[1.0], of[5.0]) == (2, 3, 1, 5)


def test_means_of_several_ratings_lie_on_a_finer_grid():
    values, means = np.array([3.4, 3.4, 3.2, 3.3]), np.array([3.5, 3.0, 3.0, 10 / 3])
    assert STARS.same(values, means, np.array([2, 2, 2, 3])).tolist() == [True, False, True, True]
    assert not STARS.same(np.array([np.nan]), np.array([3.0])).any()


def test_levels_of_the_source(truth):
    stars = RatingLevels.of(truth([[1, 5, 3.5], [2, 4.5, 3], [1.5, 2.5, 4]]))
    assert (stars.lowest, stars.half, stars.has_levels) == (1.0, 0.25, True)


def test_one_rating_for_everything(truth):
    only = truth([[3, np.nan], [3, 3]])
    levels = RatingLevels.of(only)
    assert levels.same(np.array([3.2, 3.6]), np.array([3.0, 3.0])).tolist() == [True, False]
    assert ItemRatings.of(only).chance(np.array([3.2, 3.6]), np.array([0, 0]), np.array([3, 3])).tolist() == [
        1,
        0,
    ]


def test_continuous_scales_have_no_levels(truth):
    values = np.random.default_rng(0).uniform(-10, 10, (60, 3))
    levels = RatingLevels.of(truth(values, scale=(-10.0, 10.0)))
    assert not levels.has_levels
    assert levels.half == pytest.approx(np.ptp(values.astype(np.float32)) / 40)
    near = levels.half * np.array([0.9, 1.1])
    assert levels.same(2 + near, np.full(2, 2.0)).tolist() == [True, False]


def test_others_ratings_by_hand(truth):
    ratings = ItemRatings.of(truth([[4, 1, 5], [4, 2, np.nan], [3, 2, np.nan], [5, 2, np.nan]]))
    # Item 0: the other three gave 4, 3, 5. Item 1: the others of the one who gave 1 all gave 2. Item 2 has no other
    # rater; of the other eight ratings in the data, one is a 5.
    found = ratings.chance(np.array([4.2, 2.4, 0.9, 5.0]), np.array([0, 1, 1, 2]), np.array([4.0, 1, 1, 5]))
    assert found == pytest.approx([1 / 3, 1, 0, 1 / 8])


def test_others_ratings_on_a_continuous_scale(truth):
    draw = np.random.default_rng(1)
    table = draw.uniform(-10, 10, (800, 2))
    known = truth(table, scale=(-10.0, 10.0))
    ratings, half = ItemRatings.of(known), known.half_level
    values, people = draw.uniform(-9, 9, 200), draw.integers(0, 800, 200)
    items = draw.integers(0, 2, 200)
    found = ratings.chance(values, items, table[people, items])
    near = [
        (np.abs(np.delete(table[:, item], person) - value) <= half).mean()
        for value, item, person in zip(values, items, people, strict=True)
    ]
    assert found == pytest.approx(near, abs=0.03)
    assert found.mean() == pytest.approx(np.mean(near), abs=0.002)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=20), st.floats(0, 6))
def test_others_ratings_add_up(own, value):
    counts = np.zeros((1, 7), np.int32)
    np.add.at(counts[0], own, 1)
    ratings = ItemRatings(STARS, -1, counts)
    found = ratings.chance(np.full(len(own), value), np.zeros(len(own), int), np.array(own, float))
    right = STARS.same(np.full(len(own), value), np.array(own, float))
    assert found == pytest.approx((right.sum() - right) / (len(own) - 1))


def test_the_mean_of_all_other_people(truth):
    known = truth([[4, 1, 5], [4, 2, np.nan], [1, 3, np.nan]])
    found = known.mean_of_others(np.array([0, 1, 2]), np.array([4.0, 1, 5]))
    assert found == pytest.approx([2.5, 2.5, 20 / 7])
    assert known.mean_of_others(np.array([0]), np.array([8.0]), np.array([2])) == pytest.approx([1])
