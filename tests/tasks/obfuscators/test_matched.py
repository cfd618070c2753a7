"""Test additions that an inferrer cannot learn: by hand on a few users, and against a retrained inferrer."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels import inferrer
from tasks.kernels.factitious_ratings import merge_ratings
from tasks.obfuscators import Request, load_strategy, matched, seeded_chance

PEOPLE = sp.csr_array(
    np.array([[5, 4, 0, 0], [5, 0, 0, 1], [0, 0, 3, 2], [0, 0, 4, 0]], np.float32)
)  # two of class 0, two of class 1
LABELS = np.array([0, 0, 1, 1])


def test_offers_are_items_the_giver_alone_has():
    row, item = matched.list_offers(PEOPLE, np.array([2, 2, 1, -1]))
    assert list(zip(row.tolist(), item.tolist(), strict=True)) == [(0, 2), (0, 3), (1, 2), (2, 0)]


def test_deficit_beyond_chance_is_accepted():
    """A hundred of each class; item 0: 80 of class 0 and 20 of class 1 have it, item 1: 50 and 48."""
    people = np.zeros((200, 2), np.float32)
    people[:80, 0] = people[100:120, 0] = people[:50, 1] = people[100:148, 1] = 3
    labels = np.repeat([0, 1], 100)
    row, item = (
        np.array([150, 150, 151, 160]),
        np.array([0, 1, 0, 0]),
    )  # offered: three times item 0, once item 1
    chances = matched.acceptance_probabilities(sp.csr_array(people), labels, 2, row, item)
    variance = (0.8 * 0.2 + 0.2 * 0.8) / 100
    expected = (0.6 - matched.CHANCE * variance / 0.6) * 100  # people of class 1 who should have it, too
    assert chances.tolist() == pytest.approx(
        [min(1, expected / 3), 0, min(1, expected / 3), min(1, expected / 3)]
    )
    many = matched.acceptance_probabilities(
        sp.csr_array(people), labels, 2, np.repeat(150, 100), np.zeros(100, int)
    )
    assert many == pytest.approx(expected / 100)


def test_added_rating_has_the_givers_deviation(monkeypatch):
    """All predictions are 3, the second user's 4; the giver's deviation is added, within the scale."""
    users = np.array([[3.0], [4.0], [3.0], [3.0]], np.float32)
    items = np.ones((4, 1), np.float32)
    monkeypatch.setattr(matched, "factorize", lambda *_, **__: (users, items, 0.0))
    cells = np.array([2, 1, 3]), np.array([0, 3, 1]), np.array([0, 2, 3])
    assert matched.estimate_ratings(PEOPLE, (1.0, 5.0), *cells).tolist() == [5.0, 5.0, 1.0]


def two_classes(people=900, items=120, seed=0):
    """Generate two classes that like and rate different items, with tastes of their own besides."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(people) < 0.4).astype(int)
    taste = rng.standard_normal((people, 3)) @ rng.standard_normal((3, items))
    lean = rng.standard_normal(items) * 0.9
    odds = -1.6 + 0.5 * taste + np.where(labels[:, None] == 1, lean, -lean) * 0.5
    rated = rng.random((people, items)) < 1 / (1 + np.exp(-odds))
    stars = np.clip(np.rint(3.3 + 0.5 * taste + 0.7 * rng.standard_normal((people, items))), 1, 5)
    return sp.csr_array(np.where(rated, stars, 0).astype(np.float32)), labels


def balanced_accuracy(ratings, labels):
    """Return the balanced accuracy of an inferrer trained on every other user, for the rest."""
    known = np.arange(len(labels)) % 2 == 0
    guessed = inferrer.fit(ratings[known], labels[known], 2).guess(ratings[~known])
    asked = labels[~known]
    return np.mean([(guessed[asked == number] == number).mean() for number in (0, 1)])


def test_retrained_inferrer_learns_little_from_matched():
    ratings, labels = two_classes()
    asked = Request(None, 2, (1.0, 5.0), seeded_chance(0))
    added = {name: load_strategy(name).add(ratings, labels, asked) for name in ("rfpp", "matched")}
    retrained = {
        name: balanced_accuracy(merge_ratings(ratings, some), labels) for name, some in added.items()
    }
    assert balanced_accuracy(ratings, labels) > 0.75
    assert retrained["rfpp"] > 0.75
    assert 0.4 < retrained["matched"] < 0.6


def test_share_is_exact_and_most_needed_cells_come_first():
    ratings, labels = two_classes()
    few, more = (
        load_strategy("matched").add(ratings, labels, Request(share, 2, (1.0, 5.0), seeded_chance(0)))
        for share in (0.02, 0.05)
    )
    assert (few.nnz, more.nnz) == (round(0.02 * ratings.nnz), round(0.05 * ratings.nnz))
    assert set(_cells(few)) <= set(_cells(more))


def _cells(added):
    row = np.repeat(np.arange(added.shape[0]), np.diff(added.indptr))
    return zip(row.tolist(), added.indices.tolist(), strict=True)
