"""Test who is surrounded by copies, and what the copies hold."""

import numpy as np
import scipy.sparse as sp

from tasks.shadow.planted_copies import KNOWN, Targets, choose_targets, plant_copies


def test_targets_of_every_third_with_every_knowledge():
    rated = np.arange(10, 910)
    found = choose_targets(rated, 5, np.random.default_rng(0))
    assert len(found.user) == 9 * 6  # a quarter of 900 accounts, over nine kinds and four copies each
    assert len(np.unique(found.user)) == len(found.user)
    for third in range(3):
        for known in KNOWN:
            some = found.user[(found.third == third) & (found.known == known)]
            assert len(some) == 6
            assert (some // 300 == third).all()
            assert (rated[some] >= known + 5).all()


def test_nobody_where_copies_would_be_too_many():
    assert len(choose_targets(np.full(100, 30), 50, np.random.default_rng(0)).user) == 0


def test_people_with_too_few_ratings_are_left_out():
    found = choose_targets(np.full(3000, 15), 5, np.random.default_rng(0))
    assert set(found.known) == {0, 8}


def test_copies_hold_what_is_known():
    table = np.arange(1, 41, dtype=np.float32).reshape(2, 20)
    targets = Targets(np.array([1, 0]), np.array([0, 2]), np.array([8, 0]))
    found = plant_copies(sp.csr_array(table), targets, 4, np.random.default_rng(0))
    whole = found.ratings.toarray()
    assert whole[:2].tolist() == table.tolist()
    assert found.copy_of.tolist() == [0, 0, 0, 1, 1, 1]
    assert (whole[2:] > 0).sum(axis=1).tolist() == [8, 8, 8, 10, 10, 10]
    for copy, target in zip(whole[2:], (1, 1, 1, 0, 0, 0), strict=True):
        assert set(copy[copy > 0]) <= set(table[target])
    place, item, rating = found.unknown
    assert np.bincount(place).tolist() == [12, 10]
    assert np.array_equal(table[np.array([1, 0])[place], item], rating)
    assert not whole[2 + 3 * place, item].any()
