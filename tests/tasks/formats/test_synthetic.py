"""Test the synthetic source: sizes, shape, people who stay, and independence of the blocks."""

import datetime

import numpy as np
import pytest

from tasks import formats
from tasks.config import Source
from tasks.formats import synthetic

FIRST = datetime.date(2026, 1, 1)


def load(snapshot=FIRST, block_bytes=2**25, **settings):
    source = Source(format="synthetic", synthetic=settings).model_copy(update={"block_bytes": block_bytes})
    blocks = list(formats.read_all(source, snapshot))
    users = np.concatenate([np.array(b.users.to_pylist()) for b in blocks])
    items = np.concatenate([np.array(b.items.to_pylist()) for b in blocks])
    ratings = np.concatenate([b.ratings for b in blocks])
    times = np.concatenate([b.timestamps for b in blocks])
    return users, items, ratings, times


def as_dict(columns):
    users, items, ratings, times = columns
    return dict(zip(zip(users, items, strict=True), zip(ratings, times, strict=True), strict=True))


@pytest.fixture(scope="module")
def world():
    return load(users=3000, items=600, ratings_per_user=40.0)


def test_sizes(world):
    users, items, ratings, _ = world
    assert len(set(users)) == 3000
    assert len(set(items)) <= 600
    assert len(ratings) / 3000 == pytest.approx(40, rel=0.1)
    assert len(as_dict(world)) == len(ratings)  # no person rates an item twice


def test_histogram_is_that_of_chang2009_table_2(world):
    shares = np.bincount(world[2].astype(int), minlength=6)[1:] / len(world[2])
    assert shares == pytest.approx([0.046, 0.100, 0.288, 0.336, 0.230], abs=0.03)


def test_popularity_and_activity_are_skewed(world):
    by_item = np.sort(np.unique(world[1], return_counts=True)[1])[::-1]
    by_user = np.unique(world[0], return_counts=True)[1]
    assert by_item[:60].sum() > 0.3 * len(world[2])  # a tenth of the items
    assert by_item[0] > 5 * np.median(by_item)
    assert by_user.max() > 5 * np.median(by_user)


def test_timestamps_lie_in_the_months_before(world):
    begin = datetime.datetime(2023, 1, 1, tzinfo=datetime.UTC).timestamp()  # 24 months before the decade
    end = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert begin <= world[3].min() < begin + 90 * 86400
    assert end - 86400 < world[3].max() < end


def test_ratings_can_be_predicted(world):
    """Users' and items' means explain what they explain in MovieLens, and tastes explain something beyond."""
    users, items, ratings, _ = world
    user, item = (np.unique(column, return_inverse=True)[1] for column in (users, items))
    held_out = np.random.default_rng(0).random(len(ratings)) < 0.1
    fitted = ~held_out
    mean = ratings[fitted].mean()
    item_bias = _shrunk_means(item[fitted], ratings[fitted] - mean, item.max() + 1)
    rest = ratings - mean - item_bias[item]
    user_bias = _shrunk_means(user[fitted], rest[fitted], user.max() + 1)
    errors = [ratings - mean, rest, rest - user_bias[user]]
    total, by_item, by_both = (float(np.sqrt(np.mean(e[held_out] ** 2))) for e in errors)
    assert 1.05 < total < 1.15
    assert by_item < total - 0.05
    assert by_both < by_item - 0.05


def test_ratings_do_not_depend_on_the_blocks():
    settings = {"users": 200, "items": 50, "ratings_per_user": 10.0, "seed": 3}
    whole = load(**settings)
    for block_bytes in (1, 1000, 5000):
        parts = load(block_bytes=block_bytes, **settings)
        assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))
    other = load(**{**settings, "seed": 4})
    assert as_dict(other) != as_dict(whole)


def test_people_keep_their_ratings_and_add_more():
    settings = {"users": 2000, "items": 300, "churn": 0.05}
    before, after = as_dict(load(FIRST, **settings)), as_dict(load(datetime.date(2026, 2, 1), **settings))
    people, people_after = {user for user, _ in before}, {user for user, _ in after}
    stayed = people & people_after
    assert len(people) == len(people_after) == 2000
    assert 1 - len(stayed) / 2000 == pytest.approx(0.05, abs=0.015)
    kept = {key: value for key, value in before.items() if key[0] in stayed}
    assert all(after[key] == value for key, value in kept.items())
    assert sum(user in stayed for user, _ in after) > len(kept) * 1.005


def test_without_churn_all_people_stay():
    settings = {"users": 100, "items": 50, "churn": 0.0}
    later = load(datetime.date(2026, 6, 1), **settings)
    assert set(load(FIRST, **settings)[0]) == set(later[0])


def test_any_date_has_people():
    for year in (1971, 1999, 2024, 2025, 2044):
        users, _, ratings, times = load(datetime.date(year, 7, 15), users=50, items=30)
        assert len(set(users)) == 50
        assert times.max() < datetime.datetime(year, 7, 15, tzinfo=datetime.UTC).timestamp()
        assert len(ratings) > 500


def test_half_stars_and_other_scales():
    assert set(load(half_stars=True)[2]) == set(np.arange(1, 5.5, 0.5))
    source = Source(format="synthetic", scale=(0.5, 5.0), synthetic={"half_stars": True})
    ratings = np.concatenate([b.ratings for b in formats.read_all(source, FIRST)])
    assert set(ratings) == set(np.arange(0.5, 5.5, 0.5))


@pytest.mark.parametrize(
    ("attribute", "values", "shares", "share_of_items"),
    [("gender", "F", (0.25, 0.45), 0.2), ("age", ("18", "25"), (0.5, 0.58), 0.1)],
)
def test_attributes_correlate_with_tastes(attribute, values, shares, share_of_items):
    """The first taste determines more choices than the second, so more items correlate with gender than with age."""
    source = Source(format="synthetic", synthetic={"users": 3000, "items": 300, "ratings_per_user": 40.0})
    table = synthetic.attributes(source, FIRST)
    known = dict(zip(table["user"].to_pylist(), table[attribute].to_pylist(), strict=True))
    users, items, _, _ = load(users=3000, items=300, ratings_per_user=40.0)
    assert set(known) == set(users)
    inside = np.array([known[user] in values for user in users])
    assert shares[0] < np.mean([v in values for v in known.values()]) < shares[1]
    item = np.unique(items, return_inverse=True)[1]
    share = np.bincount(item, inside) / np.bincount(item)
    chance = np.sqrt(inside.mean() * (1 - inside.mean()) / np.bincount(item))
    assert (np.abs(share - inside.mean()) > 3 * chance).mean() > share_of_items  # by chance it would be 0.003


def test_attributes_are_stable_and_age_independent_of_gender():
    source = Source(format="synthetic", synthetic={"users": 20_000, "churn": 0.05})
    now, later = (synthetic.attributes(source, day) for day in (FIRST, datetime.date(2026, 3, 1)))
    before, after = (
        {user: row for user, *row in zip(*table.to_pydict().values(), strict=True)} for table in (now, later)
    )
    stayed = before.keys() & after.keys()
    assert 15_000 < len(stayed) < 20_000
    assert all(before[user] == after[user] for user in stayed)
    women = [
        np.mean([gender == "F" for gender, age in before.values() if age == some]) for some in synthetic.AGES
    ]
    ages = [age for _, age in before.values()]
    assert [ages.count(age) / 20_000 for age in synthetic.AGES] == pytest.approx(
        [0.2, 0.34, 0.31, 0.15], abs=0.015
    )
    assert np.ptp(women) < 0.05  # five standard deviations of the rarest


def test_one_taste_is_enough():
    table = synthetic.attributes(Source(format="synthetic", synthetic={"users": 500, "tastes": 1}), FIRST)
    assert set(table["age"].to_pylist()) == set(synthetic.AGES)


def _shrunk_means(groups, values, size):
    return np.bincount(groups, values, minlength=size) / (np.bincount(groups, minlength=size) + 5)


def test_people_of_another_seed_are_others():
    """Releases of two seeds in one store are about different people, so no id occurs in both."""
    first, second = (set(load(users=50, items=20, seed=seed)[0]) for seed in (0, 1))
    assert len(first) == len(second) == 50
    assert not first & second
