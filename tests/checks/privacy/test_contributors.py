"""Test the contributor rule: ratings that rounding reveals, on average and of single people."""

import re

import made_releases as made
import numpy as np
import pytest

from checks.evidence.views import sample
from checks.privacy import contributors
from checks.recovery.rating_model import RatingModel, Ridge
from checks.registry import registered
from checks.stats import Tally, gains_low

NO = np.nan


def result(case):
    check = registered()["contributors"]
    return check.run(case, check.threshold)


def exposed(found):
    return int(re.search(r"([\d,]+) are exposed", found.detail)[1])


def sole_cells(release):
    """Return group, item and user of every cell with one contributor."""
    rows = np.repeat(np.arange(release.ratings.shape[0]), np.diff(release.ratings.indptr))
    groups, items = release.group_of[rows], release.ratings.indices
    number = np.zeros((release.n_groups, release.ratings.shape[1]), int)
    np.add.at(number, (groups, items), 1)
    sole = number[groups, items] == 1
    return groups[sole], items[sole], rows[sole], release.ratings.data[sole]


def jittered(release, people):
    """Publish these people's sole ratings 0.2 to 0.4 beside what they are: rounding reveals them, no digit does."""
    groups, items, users, own = sole_cells(release)
    draw = np.random.default_rng(4)
    values = release.values.copy()
    chosen = np.isin(users, people)
    apart = draw.choice([-1, 1], len(own)) * draw.uniform(0.2, 0.4, len(own))
    inside = np.where((own + apart < 1) | (own + apart > 5), -apart, apart)
    values[groups[chosen], items[chosen]] = (own + inside)[chosen]
    return release.but(values=values)


def with_most_sole_ratings(release, count):
    users = sole_cells(release)[2]
    return np.argsort(-np.bincount(users), kind="stable")[:count]


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_jitter_that_rounds_back_is_refused(releases, tmp_path, name):
    """Of three people in ten; no value is the rating to the digit."""
    release = releases[name]
    people = np.random.default_rng(1).choice(300, 90, replace=False)
    found = result(made.case(jittered(release, people), tmp_path / "x"))
    assert not found.passed
    assert found.ci_low > 0.05
    assert "after rounding" in found.detail


def test_a_few_people_are_too_many(releases, tmp_path):
    """The average moves by less than it may; those of whom enough can be read are exposed."""
    release = releases["padded"]
    case = made.case(jittered(release, with_most_sole_ratings(release, 3)), tmp_path / "x")
    found = result(case)
    assert not found.passed
    assert found.observed <= 0.05
    assert exposed(found) >= 2


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_predictions_expose_nobody(case, name):
    found = result(case(name))
    assert found.passed, found.detail
    assert exposed(found) == 0


def test_samples_expose_the_same_people(releases, tmp_path, monkeypatch):
    """Chance is estimated in a sample of the groups; nobody of the others is forgotten."""
    release = releases["padded"]
    case = made.case(jittered(release, with_most_sole_ratings(release, 3)), tmp_path / "x")
    monkeypatch.setattr(sample, "MOST_CELLS", 50 * 200)
    found = result(case)
    assert not found.passed
    assert exposed(found) >= 1
    assert "chance was estimated in 50 of them" in found.detail


def test_what_predictions_explain_exposes_nobody(tmp_path):
    """Everybody likes what their side likes, and rates alone: nobody could guess it, every prediction is right."""
    draw = np.random.default_rng(2)
    groups, items = 60, 80
    side, taste = draw.choice([-1, 1], groups), draw.choice([-1, 1], items)
    opinions = 3 + 2 * np.outer(side, taste)
    rated = draw.random((groups, items)) < 0.6
    people = np.zeros((groups * 2, items))
    people[::2], people[1::2] = np.where(rated, opinions, 0), np.where(rated, 0, opinions)
    rows, columns = np.nonzero(people)
    ratings = made.csr(rows, columns, people[rows, columns], people.shape)
    release = made.Made(ratings, np.repeat(np.arange(groups), 2), opinions.astype(np.float32), k=2, c=2)
    case = made.case(release, tmp_path / "x")
    counted = contributors._count_cells(case, 2)
    assert (gains_low([counted.people])[0] > 0.5).sum() > 30  # by what others think of the items
    found = result(case)
    assert found.passed, found.detail
    assert exposed(found) == 0


def test_models_of_the_source_predict_it():
    """Ratings of two factors; a third of them is left out and predicted."""
    draw = np.random.default_rng(3)
    taste, trait = draw.normal(size=(200, 2)), draw.normal(size=(80, 2))
    whole = 3 + 0.3 * taste @ trait.T + draw.normal(0, 0.2, (200, 1)) + draw.normal(0, 0.2, 80)
    known = draw.random(whole.shape) < 0.66
    known[:, 0] = False
    known[0, 0] = True  # an item with one rater
    ratings = made.csr(*np.nonzero(known), whole[known], whole.shape)
    model = RatingModel.fit(
        ratings, 2, Ridge.even(0.001), fewest=2, rounds=10, random=np.random.default_rng(0)
    )
    assert not model.items[0].any()
    people = model.people(ratings)
    rows, columns = np.nonzero(~known[:, 1:])
    guess = model.cells(people, rows, columns + 1)
    assert np.abs(guess - whole[rows, columns + 1]).mean() < 0.05
    assert model.profiles(people)[rows, columns + 1] == pytest.approx(guess, abs=1e-4)
    pair = people[8:10].mean(axis=0, keepdims=True)  # predictions of a mean are the mean of the predictions
    apart = model.cells(people, np.array([8, 9]), np.array([7, 7]))
    assert model.cells(pair, np.array([0]), np.array([7])) == pytest.approx(apart.mean())


def test_counts_by_hand(tmp_path):
    """Two groups of two. Sole ratings: person 0 has items 0 (4, shown 4.3) and 1 (2, shown 2.0), person 1 item 2 (5,
    shown 3.0), persons 2 and 3 together item 0 (4 and 5, shown 4.4)."""
    table = np.array([[4, 2, NO], [NO, NO, 5], [4, NO, NO], [5, NO, NO]])
    rows, columns = np.nonzero(~np.isnan(table))
    ratings = made.csr(rows, columns, table[rows, columns], table.shape)
    values = np.array([[4.3, 2.0, 3.0], [4.4, NO, NO]], np.float32)
    case = made.case(made.Made(ratings, np.array([0, 0, 1, 1]), values, k=2, c=3), tmp_path / "x")
    found = contributors._count_cells(case, 3)
    # 4.4 is the mean of 4 and 5: on the grid of halves it reads as 4.5.
    assert (found.cells, found.verbatim, found.rounded, found.sole) == (4, 1, 3, 1)
    order = made.rows_of(case, table)
    assert found.people.trials[order].tolist() == [2, 1, 0, 0]
    assert found.people.hits[order].tolist() == [2, 0, 0, 0]
    # Item 0: 4.3 is right for one of the two others. Items 1 and 2 have no other rater: of the other four ratings in
    # the data none is 2 and none is 3. The means are 4.5 and, of all ratings, 4; with levels from 2 on, 4.5 reads as 4.
    assert found.people.luck[order].tolist() == [1, 0, 0, 0]


def test_bounds_hold_for_everybody_together():
    alone = Tally(np.array([9.0]), np.array([9.0]), np.zeros(1))
    assert gains_low([alone])[0] == pytest.approx(0.05 ** (1 / 9))
    among = Tally(np.array([9.0, 0, 0]), np.array([9.0, 4, 0]), np.array([0.0, 1, 0]))
    low = gains_low([among, alone])
    assert low[0] == pytest.approx([(0.05 / 3) ** (1 / 9), -1 / 3, 0])
    assert low[1] == pytest.approx([(0.05 / 3) ** (1 / 9)])
