"""Test simulated forum mentions, and the defences of [Frankowski2006]."""

import made_releases as made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.evidence.seeds import seeded
from checks.linkage.drawn_knowledge import draw_knowledge
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.mentions import COUNTS, RATED_SHARE, mention_counts, mentions
from checks.linkage.misdirection import (
    misdirect,
    misdirections,
    most_popular_first,
    popular_from,
    suppress_rarest,
)

NO = np.nan
# Four people, five items; raters per item: 4, 3, 1, 2, 1.
TABLE = np.array([[5, 4, NO, NO, NO], [3, NO, 2, NO, NO], [1, 1, NO, 1, NO], [2, 2, NO, 2, 2]])


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    ratings = made.synthetic(users=200, items=150, density=0.3)
    release = made.Made(ratings, np.arange(200) // 5, np.full((40, 150), 3, np.float32), k=5)
    return made.case(release, tmp_path_factory.mktemp("mentions") / "release").truth


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    rows, columns = np.nonzero(~np.isnan(TABLE))
    ratings = made.csr(rows, columns, TABLE[rows, columns], TABLE.shape)
    release = made.Made(ratings, np.zeros(4, int), np.full((1, 5), 3, np.float32), k=4)
    names = ["a", "b", "c", "d"]  # in order, so that rows of the truth are rows of the table
    published, private = made.write(release, tmp_path_factory.mktemp("small") / "release", names)
    return made.reopen(release, published, private).truth


def said(*people):
    """Knowledge by hand: {item: rating or NaN} for the first, second, … person."""
    lengths = [len(what) for what in people]
    return Knowledge(
        "by hand",
        np.arange(len(people)),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.array([item for what in people for item in what], np.int64),
        np.array([rating for what in people for rating in what.values()], np.float32),
    )


def spoken(knowledge):
    return [set(part.tolist()) for part in np.split(knowledge.items, knowledge.indptr[1:-1])]


def test_mention_counts_follow_table_1():
    numbers = mention_counts(40_000, seeded("test"))
    shares = [((numbers >= low) & (numbers <= high)).mean() for (low, high), _ in COUNTS]
    assert shares == pytest.approx([people / 133 for _, people in COUNTS], abs=0.01)
    assert numbers.mean() == pytest.approx(3828 / 133, rel=0.05)  # the paper's mentions per person


def test_own_mentions_carry_the_true_rating_and_others_none(truth):
    targets = np.arange(200)
    drawn = mentions(truth, targets, Model(0, "forum"))
    true = truth.ratings.toarray()[drawn.owners(), drawn.items]
    pattern = truth.ratings.copy()
    pattern.data[:] = 1
    rated = pattern.toarray()[drawn.owners(), drawn.items] > 0
    assert np.array_equal(~np.isnan(drawn.ratings), rated)
    assert np.array_equal(drawn.ratings[rated], true[rated])
    assert len(np.unique(drawn.owners() * 150 + drawn.items)) == len(drawn.items)  # nothing is said twice
    few = (
        np.repeat(np.diff(drawn.indptr), np.diff(drawn.indptr)) <= 15
    )  # of more, people have not rated enough
    assert rated[few].mean() == pytest.approx(RATED_SHARE, abs=0.05)


def test_people_prefer_popular_items(truth):
    drawn = mentions(truth, np.tile(np.arange(200), 5), Model(0, "forum"))
    own = ~np.isnan(drawn.ratings)
    few = np.repeat(np.diff(drawn.indptr), np.diff(drawn.indptr)) <= 3
    by_chance = truth.raters[truth.ratings.indices].mean()
    assert truth.raters[drawn.items[own & few]].mean() > 1.05 * by_chance


def test_the_gate_and_studies_draw_for_themselves(truth):
    targets, model = np.arange(50), Model(0, "forum")
    gate = draw_knowledge(truth, targets, model)
    assert np.array_equal(gate.items, mentions(truth, targets, model).items)
    other = mentions(truth, targets, model, seeded("another study"))
    assert not np.array_equal(gate.indptr, other.indptr)


def test_wrong_ratings_are_one_level_off_and_unknown_ones_stay(truth):
    exact, off = (mentions(truth, np.arange(200), Model(0, "forum", error)) for error in ("exact", "±1"))
    assert np.array_equal(exact.items, off.items)
    assert np.array_equal(np.isnan(exact.ratings), np.isnan(off.ratings))
    apart = np.abs(exact.ratings - off.ratings)[~np.isnan(exact.ratings)]
    assert set(apart.tolist()) == {0, 1}
    assert np.nanmin(off.ratings) >= 1
    assert np.nanmax(off.ratings) <= 5


def test_lists_to_misdirect_with(small):
    assert small.raters.tolist() == [4, 3, 1, 2, 1]
    assert most_popular_first(small.raters).tolist() == [0, 1, 3, 2, 4]
    assert popular_from(small.raters, 1).tolist() == [2, 4, 3, 1, 0]
    assert popular_from(small.raters, 2).tolist() == [3, 1, 0]
    assert popular_from(small.raters, 5).tolist() == []
    assert most_popular_first(np.array([0, 2])).tolist() == [1]


def test_misdirections_are_neither_rated_nor_mentioned(small):
    # The first rated 0 and 1 and mentioned 3; the second rated 0 and 2; the fourth rated all but 2.
    before = said({0: 5, 3: NO}, {2: 2}, {}, {0: 2})
    popular = misdirections(small, before, most_popular_first(small.raters), 2)
    assert popular.tolist() == [[2, 4], [1, 3], [2, 4], [2, -1]]
    rare = misdirections(small, before, popular_from(small.raters, 2), 2)
    assert rare.tolist() == [[-1, -1], [3, 1], [-1, -1], [-1, -1]]
    after = misdirect(before, popular)
    assert spoken(after) == [{0, 3, 2, 4}, {2, 1, 3}, {2, 4}, {0, 2}]
    assert after.indptr.tolist() == [0, 4, 7, 9, 11]
    assert np.isnan(after.ratings).tolist() == [
        False,
        True,
        True,
        True,
        False,
        True,
        True,
        True,
        True,
        False,
        True,
    ]
    assert spoken(misdirect(before, popular[:, :0])) == spoken(before)


def test_lists_do_not_depend_on_blocks(small, monkeypatch):
    before = said({0: 5, 3: NO}, {2: 2}, {}, {0: 2})
    whole = misdirections(small, before, most_popular_first(small.raters), 3)
    monkeypatch.setattr("checks.linkage.misdirection.BLOCK_CELLS", 1)
    assert np.array_equal(misdirections(small, before, most_popular_first(small.raters), 3), whole)


def test_the_rarest_own_mentions_go_first(small):
    before = said({0: 5, 2: NO, 1: 4}, {2: 2}, {0: 1, 1: 1, 3: 1, 4: NO}, {4: 2, 0: 2, 3: 2, 1: 2})
    assert spoken(suppress_rarest(small, before, 0.5)) == [{0, 2}, {2}, {0, 1, 4}, {0, 1}]
    assert spoken(suppress_rarest(small, before, 1.0)) == [{2}, set(), {4}, set()]
    kept = suppress_rarest(small, before, 0.5)
    assert kept.ratings[kept.indptr[3] :].tolist() == [2, 2]
    assert kept.indptr.tolist() == [0, 2, 3, 6, 8]


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 1), seed=st.integers(0, 10_000))
def test_suppression_only_removes_and_never_more_than_asked(truth, share, seed):
    before = mentions(truth, np.arange(30), Model(0, "forum"), np.random.default_rng(seed))
    after = suppress_rarest(truth, before, share)
    rated = [np.bincount(k.owners(), weights=~np.isnan(k.ratings), minlength=30) for k in (before, after)]
    assert all(kept <= had for kept, had in zip(spoken(after), spoken(before), strict=True))
    assert np.array_equal(rated[0] - rated[1], np.floor(share * rated[0] + 1e-9))
    assert np.isnan(after.ratings).sum() == np.isnan(before.ratings).sum()
