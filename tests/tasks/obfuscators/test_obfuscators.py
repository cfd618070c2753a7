"""Test strategies that add ratings: cells chosen by hand for six users, and invariants of all strategies."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import obfuscators
from tasks.kernels import candidate_items
from tasks.obfuscators import Request, load_strategy, opposite_lists, seeded_chance
from tasks.obfuscators._choice import Choice, levels_of
from tests.tasks.two_class_ratings import LABELS, RATINGS

STRATEGIES = obfuscators.registered()
# Of these it is known which items they may add: those of the opposite lists.
FROM_LISTS = ["greedy", "random", "rfpp", "weinsberg"]


def by_hand(purpose, users, items):
    """Draw item 1 before item 0 for the fourth user, the lower item first for all others."""
    return np.where(users == 3, 0.5 - items / 100, 0.5 + items / 100)


REQUEST = Request(share=6 / 18, classes=2, scale=(1.0, 5.0), chance=by_hand, threshold=-1e9)


def cells(added):
    row = np.repeat(np.arange(added.shape[0]), np.diff(added.indptr))
    return {(int(u), int(i)): float(v) for u, i, v in zip(row, added.indices, added.data, strict=True)}


def test_opposite_lists_by_hand():
    first, second = opposite_lists(RATINGS, LABELS, 2)
    # Item 2 has more and higher ratings than 3, item 0 than 1; item 4 indicates no class.
    assert first.items.tolist() == [2, 3]
    assert second.items.tolist() == [0, 1]
    assert (first.strengths > 0).all()
    assert first.strengths[0] > first.strengths[1]
    assert [found.items.tolist() for found in opposite_lists(RATINGS, LABELS, 2, top=1)] == [[2], [0]]


def test_factitious_ratings_by_hand():
    opposite = obfuscators.factitious_ratings(RATINGS, LABELS, REQUEST)
    assert opposite[0, 2:4] == pytest.approx([14 / 3, 3])
    assert opposite[1, :2] == pytest.approx([14 / 3, 4.5])
    same = obfuscators.factitious_ratings(RATINGS, LABELS, replace(REQUEST, rating="same"))
    assert same[0, 2:4] == pytest.approx([1, 3])  # no user of the own class rated item 3: the mean of all
    by_all = obfuscators.factitious_ratings(RATINGS, LABELS, replace(REQUEST, rating="all"))
    assert by_all[0] == pytest.approx([14 / 3, 10 / 3, 15 / 4, 3, 3])
    assert (by_all[0] == by_all[1]).all()


def test_rfpp_takes_the_most_popular():
    """One each. Item 2 is more popular than 3, but the third person rated it; 0 and 1 are equally popular."""
    added = load_strategy("rfpp").add(RATINGS, LABELS, REQUEST)
    high = pytest.approx(14 / 3)
    assert cells(added) == {(0, 2): high, (1, 2): high, (2, 3): 3, (3, 1): 4.5, (4, 0): high, (5, 0): high}


def test_rfpp_adds_only_similar_items():
    """At 0.95 only item 2 is, and only to item 4, with four common raters: 1 − 7/4 · e⁻⁴. No more is added then."""
    added = load_strategy("rfpp").add(RATINGS, LABELS, replace(REQUEST, threshold=0.95))
    assert set(cells(added)) == {(0, 2), (1, 2)}


def test_greedy_takes_the_strongest():
    added = load_strategy("greedy").add(RATINGS, LABELS, REQUEST)
    assert set(cells(added)) == {(0, 2), (1, 2), (2, 3), (3, 0), (4, 0), (5, 0)}


def test_random_takes_the_drawn_items():
    """The waiting time is −log of the number: the higher number is drawn first."""
    added = load_strategy("random").add(RATINGS, LABELS, REQUEST)
    assert set(cells(added)) == {(0, 3), (1, 3), (2, 3), (3, 0), (4, 0), (5, 1)}


def test_weinsberg_adds_in_proportion_and_rates_with_the_average():
    added = load_strategy("weinsberg").add(RATINGS, LABELS, replace(REQUEST, share=9 / 18))
    # Half of 3 2 4 3 3 3 ratings are 1.5 1 2 1.5 1.5 1.5; the third and the fifth have one item to choose from, and
    # what is left is shared anew: 7 · (3 2 3 3)/11 = 1.9 1.3 1.9 1.9. All draws are equal: the larger remainder counts.
    assert np.diff(added.indptr).tolist() == [2, 1, 1, 2, 1, 2]
    assert cells(added)[0, 3] == 3
    assert cells(added)[2, 3] == 3


def test_sampling_prefers_strong_items():
    """Two items, one four times as strong: it is taken by four of five people."""
    people = 20_000
    choice = Choice([np.array([0, 1])], np.zeros(people, int), np.full((people, 1), 3, np.uint64))
    _, items = choice.draw(np.ones(people, int), seeded_chance(1), [np.array([4.0, 1.0])])
    assert np.bincount(items) / people == pytest.approx([0.8, 0.2], abs=0.01)
    _, items = choice.draw(np.ones(people, int), seeded_chance(1))
    assert np.bincount(items) / people == pytest.approx([0.5, 0.5], abs=0.01)


def test_seeded_chance_depends_on_the_cell_only():
    users, items = np.repeat(np.arange(100), 100), np.tile(np.arange(100), 100)
    drawn = seeded_chance(3)("x", users, items)
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert len(np.unique(drawn)) == len(drawn)
    assert np.histogram(drawn, 10, (0, 1))[0] == pytest.approx(np.full(10, 1000), abs=120)
    order = np.random.default_rng(0).permutation(len(users))
    assert (seeded_chance(3)("x", users[order], items[order]) == drawn[order]).all()
    assert not (seeded_chance(4)("x", users, items) == drawn).any()
    assert not (seeded_chance(3)("y", users, items) == drawn).any()
    assert not (seeded_chance(3)("x", items, users) == drawn)[users != items].any()


def test_levels_of_equal_preference():
    assert levels_of(np.array([9, 9, 4, 3, 3])).tolist() == [0, 0, 1, 2, 2]
    assert levels_of(np.empty(0)).tolist() == []


# --- invariants of every strategy


def world(seed, people=40, items=30, classes=2):
    """Generate users whose class shows in the items they rated."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(people) % classes)
    likes = rng.random((classes, items))
    rated = rng.random((people, items)) < 0.15 + 0.4 * likes[labels]
    rated[np.arange(people), rng.integers(0, items, people)] = True
    ratings = sp.csr_array(np.where(rated, rng.integers(1, 6, (people, items)), 0).astype(np.float32))
    return ratings, labels


def make_request(seed, share, classes):
    return Request(share, classes, (1.0, 5.0), seeded_chance(seed), threshold=0.5)


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.4), classes=st.integers(2, 3))
def test_additions_are_new_and_on_the_scale(name, seed, share, classes):
    ratings, labels = world(seed, classes=classes)
    asked = make_request(seed, share, classes)
    before = ratings.copy()
    added = load_strategy(name).add(ratings, labels, asked)
    assert (ratings != before).nnz == 0
    assert added.shape == ratings.shape
    assert added.has_sorted_indices
    assert added.data.dtype == np.float32
    assert (sp.csr_array((ratings != 0).multiply(added != 0))).nnz == 0
    assert (added.data >= 1).all()
    assert (added.data <= 5).all()
    assert added.nnz <= asked.total(ratings)


@pytest.mark.parametrize("name", FROM_LISTS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.6), classes=st.integers(2, 3))
def test_requested_number_comes_from_opposite_lists(name, seed, share, classes):
    ratings, labels = world(seed, classes=classes)
    asked = make_request(seed, share, classes)
    added = load_strategy(name).add(ratings, labels, asked)
    lists = [found.items for found in opposite_lists(ratings, labels, classes)]
    for (u, i), _ in cells(added).items():
        assert i in lists[labels[u]]
    choice = Choice.of(ratings, labels, lists, asked if name == "rfpp" else None)
    possible = candidate_items.count_eligible(choice.bits)
    assert added.nnz == min(asked.total(ratings), possible.sum())
    if name != "weinsberg":  # in proportion to the own ratings
        got = np.diff(added.indptr)
        below = got[got < possible]
        assert len(below) == 0 or got.max() - below.min() <= 1


@pytest.mark.parametrize("name", FROM_LISTS)
@pytest.mark.parametrize("seed", range(3))
def test_user_order_makes_no_difference(name, seed):
    ratings, labels = world(seed, people=60)
    order = np.random.default_rng(seed).permutation(60)
    added = load_strategy(name).add(ratings, labels, make_request(seed, 0.1, 2))
    chance = seeded_chance(seed)
    asked = replace(
        make_request(seed, 0.1, 2), chance=lambda purpose, users, items: chance(purpose, order[users], items)
    )
    moved = load_strategy(name).add(sp.csr_array(ratings[order]), labels[order], asked)
    assert cells(sp.csr_array(added[order])).keys() == cells(moved).keys()
    assert (added[order] - moved).data == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_choice_is_determined_by_the_chance(name):
    ratings, labels = world(5)
    one, again, other = (
        cells(load_strategy(name).add(ratings, labels, make_request(seed, 0.1, 2))) for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


@pytest.mark.parametrize("name", STRATEGIES)
def test_share_zero_adds_nothing(name):
    ratings, labels = world(6)
    assert load_strategy(name).add(ratings, labels, make_request(0, 0.0, 2)).nnz == 0


@pytest.mark.parametrize("name", FROM_LISTS)
def test_fixed_inferrer_is_misled(name):
    from tasks.kernels import inferrer

    ratings, labels = world(7, people=200, items=60)
    known = inferrer.fit(ratings, labels, 2)
    added = load_strategy(name).add(ratings, labels, make_request(7, 0.15, 2))
    before = inferrer.balanced_precision(labels, known.guess(ratings))
    after = inferrer.balanced_precision(labels, known.guess(sp.csr_array(ratings + added)))
    assert after < before - 0.1
