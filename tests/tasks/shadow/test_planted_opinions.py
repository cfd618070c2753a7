"""Test which opinions are attacked by made-up accounts, and the ratings that these accounts give."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.shadow import planted_opinions
from tasks.shadow.planted_opinions import Chosen, Entries, choose_opinions, is_attackable, plant_accounts

TABLE = np.array(
    [
        [5, 3, 0, 1],
        [4, 2, 3, 0],
        [3, 3, 0, 0],
        [1, 4, 0, 0],
    ],
    np.float32,
)


@pytest.fixture
def entries():
    return Entries.of(sp.csr_array(TABLE))


def test_entries_by_hand(entries):
    # 5 against (3 + 1)/2, 3 against 3, 1 against 4; 4 against 2.5, 2 against 3.5, 3 against 3; …
    assert entries.usual.tolist() == [2, 3, 4, 2.5, 3.5, 3, 3, 3, 4, 1]
    assert entries.liked.tolist() == [True, False, False, True, False, False, False, False, False, True]
    assert entries.clear.tolist() == [True, False, True, True, True, False, False, False, True, True]


def test_accounts_by_hand(entries, monkeypatch):
    """User 1's rating of item 3 stays where it is alone; user 3's of item 1 moves to column 4. Two accounts each."""
    monkeypatch.setattr(planted_opinions, "MOST_CAMOUFLAGE", 1)
    chosen = Chosen(np.array([2, 9]), np.array([3, 4]), 5)
    found = plant_accounts(entries, chosen, 4, 2, 3.0, np.random.default_rng(0)).toarray()
    assert found.tolist() == [
        [5, 3, 0, 1, 0],
        [4, 2, 3, 0, 0],
        [3, 3, 0, 0, 0],
        [1, 0, 0, 0, 4],
        [3.25, 0, 0, 3, 3],  # the most rated item with its mean, and the middle
        [3.25, 0, 0, 3, 3],
    ]


def test_no_account_is_needed_where_one_rater_is_enough(entries):
    chosen = Chosen(np.array([2]), np.array([3]), 4)
    found = plant_accounts(entries, chosen, 4, 0, 3.0, np.random.default_rng(0))
    assert found.toarray().tolist() == TABLE.tolist()


def test_other_ratings_of_a_chosen_item_are_hidden(entries):
    chosen = Chosen(np.array([4]), np.array([1]), 4)  # user 1's rating of item 1
    found = plant_accounts(entries, chosen, 4, 2, 3.0, np.random.default_rng(0)).toarray()
    assert found[:4, 1].tolist() == [0, 2, 0, 0]
    assert found[4:, 1].tolist() == [3, 3]


@pytest.fixture
def wide():
    """Fourteen thousand ratings of 60 common and 900 rarer items."""
    draw = np.random.default_rng(0)
    chance = np.concatenate([np.full(60, 0.6), np.full(900, 0.005)])
    table = draw.integers(1, 6, (300, 960)) * (draw.random((300, 960)) < chance)
    return sp.csr_array(table.astype(np.float32))


def test_chosen_items_have_one_real_rater_and_as_many_accounts_as_needed(wide):
    entries = Entries.of(wide)
    chosen = choose_opinions(entries, 960, np.random.default_rng(1))
    assert len(chosen.place) == 600  # a few rare items, then copies of single ratings
    assert len(np.unique(chosen.column)) == len(chosen.column)
    planted = plant_accounts(entries, chosen, 300, 2, 3.0, np.random.default_rng(2))
    columns = planted.toarray()[:, chosen.column]
    assert (columns[:300] > 0).sum(axis=0).tolist() == [1] * 600
    assert (columns[300:] == 3).sum(axis=0).tolist() == [2] * 600
    assert np.array_equal(columns[:300].sum(axis=0), entries.rating[chosen.place])
    assert planted.shape[0] == 300 + 3 * 2  # three teams of at most 200 items
    teams = (columns[300:] > 0).reshape(3, 2, 600).sum(axis=2)
    assert (teams == 200).all()
    # Little else has changed.
    assert wide.nnz - (planted[:300] > 0).sum() <= planted_opinions.MOST_HIDDEN_SHARE * wide.nnz
    assert 0.4 < entries.liked[chosen.place].mean() < 0.6
    assert entries.clear[chosen.place].all()


def test_rarest_items_come_first(wide):
    entries = Entries.of(wide)
    chosen = choose_opinions(entries, 960, np.random.default_rng(1))
    raters = np.bincount(wide.indices, minlength=960)
    kept = chosen.column[chosen.column < 960]
    assert raters[kept].max() <= np.sort(raters[raters > 0])[len(kept) + 100]
    assert len(kept) > 100


def test_same_stream_same_choice(wide):
    entries = Entries.of(wide)
    one, other = (choose_opinions(entries, 960, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.place, other.place)
    assert np.array_equal(one.column, other.column)


def test_small_data_are_not_attacked():
    assert is_attackable(60, 12_000)
    assert not is_attackable(59, 12_000)
    assert not is_attackable(60, 11_999)
