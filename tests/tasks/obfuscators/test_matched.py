"""Additions that an inferrer cannot learn: by hand on a few people, and what an inferrer trained anew learns."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels import inferrer
from tasks.kernels.additions import together
from tasks.obfuscators import Wanted, matched, seeded_chance, strategy

PEOPLE = sp.csr_array(
    np.array([[5, 4, 0, 0], [5, 0, 0, 1], [0, 0, 3, 2], [0, 0, 4, 0]], np.float32)
)  # two of class 0, two of class 1
LABELS = np.array([0, 0, 1, 1])


def test_offered_is_what_the_giver_has_and_the_person_has_not():
    row, item = matched.offered(PEOPLE, np.array([2, 2, 1, -1]))
    assert list(zip(row.tolist(), item.tolist(), strict=True)) == [(0, 2), (0, 3), (1, 2), (2, 0)]


def test_what_a_class_lacks_beyond_chance_is_taken_over():
    """A hundred of each class; item 0: 80 of class 0 and 20 of class 1 have it, item 1: 50 and 48."""
    people = np.zeros((200, 2), np.float32)
    people[:80, 0] = people[100:120, 0] = people[:50, 1] = people[100:148, 1] = 3
    labels = np.repeat([0, 1], 100)
    row, item = (
        np.array([150, 150, 151, 160]),
        np.array([0, 1, 0, 0]),
    )  # offered: three times item 0, once item 1
    chances = matched.acceptance(sp.csr_array(people), labels, 2, row, item)
    variance = (0.8 * 0.2 + 0.2 * 0.8) / 100
    wanted = (0.6 - matched.CHANCE * variance / 0.6) * 100  # people of class 1 who should have it, too
    assert chances.tolist() == pytest.approx([min(1, wanted / 3), 0, min(1, wanted / 3), min(1, wanted / 3)])
    many = matched.acceptance(sp.csr_array(people), labels, 2, np.repeat(150, 100), np.zeros(100, int))
    assert many == pytest.approx(wanted / 100)


def test_a_made_up_rating_is_off_by_what_the_giver_is(monkeypatch):
    """Everybody is predicted 3, the second person 4; what the giver is off by is added, within the scale."""
    users = np.array([[3.0], [4.0], [3.0], [3.0]], np.float32)
    items = np.ones((4, 1), np.float32)
    monkeypatch.setattr(matched, "factorize", lambda *_, **__: (users, items, 0.0))
    cells = np.array([2, 1, 3]), np.array([0, 3, 1]), np.array([0, 2, 3])
    assert matched.rated(PEOPLE, (1.0, 5.0), *cells).tolist() == [5.0, 5.0, 1.0]


def crowd(people=900, items=120, seed=0):
    """Two classes that like and rate different items, with tastes of their own besides."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(people) < 0.4).astype(int)
    taste = rng.standard_normal((people, 3)) @ rng.standard_normal((3, items))
    lean = rng.standard_normal(items) * 0.9
    odds = -1.6 + 0.5 * taste + np.where(labels[:, None] == 1, lean, -lean) * 0.5
    rated = rng.random((people, items)) < 1 / (1 + np.exp(-odds))
    stars = np.clip(np.rint(3.3 + 0.5 * taste + 0.7 * rng.standard_normal((people, items))), 1, 5)
    return sp.csr_array(np.where(rated, stars, 0).astype(np.float32)), labels


def learnt(ratings, labels):
    """Balanced accuracy of an inferrer trained on every other person, asked about the rest."""
    known = np.arange(len(labels)) % 2 == 0
    guessed = inferrer.fit(ratings[known], labels[known], 2).guess(ratings[~known])
    asked = labels[~known]
    return np.mean([(guessed[asked == number] == number).mean() for number in (0, 1)])


def test_an_inferrer_trained_anew_learns_little_where_rfpp_teaches_it():
    ratings, labels = crowd()
    asked = Wanted(None, 2, (1.0, 5.0), seeded_chance(0))
    added = {name: strategy(name).add(ratings, labels, asked) for name in ("rfpp", "matched")}
    anew = {name: learnt(together(ratings, some), labels) for name, some in added.items()}
    assert learnt(ratings, labels) > 0.75
    assert anew["rfpp"] > 0.75
    assert 0.4 < anew["matched"] < 0.6


def test_a_share_is_kept_to_and_the_most_needed_comes_first():
    ratings, labels = crowd()
    few, more = (
        strategy("matched").add(ratings, labels, Wanted(share, 2, (1.0, 5.0), seeded_chance(0)))
        for share in (0.02, 0.05)
    )
    assert (few.nnz, more.nnz) == (round(0.02 * ratings.nnz), round(0.05 * ratings.nnz))
    assert set(_cells(few)) <= set(_cells(more))


def _cells(added):
    row = np.repeat(np.arange(added.shape[0]), np.diff(added.indptr))
    return zip(row.tolist(), added.indices.tolist(), strict=True)
