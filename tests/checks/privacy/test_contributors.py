"""Test the contributor rule: ratings that rounding reveals, on average and of single people."""

import made_releases as made
import numpy as np
import pytest

from checks.evidence.views import sample
from checks.privacy import contributors
from checks.recovery.real_cells import RealCells
from checks.registry import registered
from checks.stats import Tally, gains_low

NO = np.nan


def result(case):
    check = registered()["contributors"]
    return check.run(case, check.threshold)


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
    assert found.ci_low > 0.15
    assert "after rounding" in found.detail


def test_three_people_are_three_too_many(releases, tmp_path):
    """The average moves by less than it may, and each of them is exposed."""
    release = releases["padded"]
    case = made.case(jittered(release, with_most_sole_ratings(release, 3)), tmp_path / "x")
    found = result(case)
    assert not found.passed
    assert found.ci_high <= 0.05
    assert "3 are exposed" in found.detail


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_predictions_expose_nobody(case, name):
    found = result(case(name))
    assert found.passed, found.detail
    assert " 0 are exposed" in found.detail


def test_samples_expose_the_same_people(releases, tmp_path, monkeypatch):
    """Chance is estimated in a sample of the groups; nobody of the others is forgotten."""
    release = releases["padded"]
    case = made.case(jittered(release, with_most_sole_ratings(release, 3)), tmp_path / "x")
    monkeypatch.setattr(sample, "MOST_CELLS", 20 * 200)
    found = result(case)
    assert not found.passed
    assert "3 are exposed" in found.detail
    assert "chance was estimated in 20 of them" in found.detail


def test_what_the_rest_of_the_release_predicts_is_no_disclosure(tmp_path):
    """One person of each group has a taste of the group's own, and rates alone what the group's neighbours like.

    Items have as many friends as enemies: nobody could guess a rating without the release, and all are right. They
    follow from the other cells, so nobody is exposed by their own.
    """
    draw = np.random.default_rng(2)
    groups, items = 60, 80
    side, taste = draw.choice([-1, 1], groups), draw.choice([-1, 1], items)
    opinions = 3 + 2 * np.outer(side, taste)
    rated = np.zeros((groups * 3, items), bool)
    rated[::3] = draw.random((groups, items)) < 0.6
    rated[1::3], rated[2::3] = ~rated[::3], ~rated[::3]  # two who rate the rest, together
    people = np.repeat(opinions, 3, axis=0)
    rows, columns = np.nonzero(rated)
    ratings = made.csr(rows, columns, people[rows, columns], rated.shape)
    release = made.Made(ratings, np.repeat(np.arange(groups), 3), opinions.astype(np.float32), k=3, c=2)
    case = made.case(release, tmp_path / "x")
    counted = contributors._count_cells(case, 2)
    assert (gains_low([counted.people])[0] > 0.5).sum() == groups  # of these guesses none is right
    found = result(case)
    assert found.passed, found.detail
    assert " 0 are exposed" in found.detail


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
    # Item 0: 4.3 is right for one of the two others, whose mean is 4.5 and reads as 5. Items 1 and 2 have no other
    # rater: of the other four ratings in the data none is 2, none is 3; the mean of all ratings is 4.
    assert found.people.luck[order].tolist() == [0.5, 0, 0, 0]


def test_bounds_hold_for_everybody_together():
    alone = Tally(np.array([9.0]), np.array([9.0]), np.zeros(1))
    assert gains_low([alone])[0] == pytest.approx(0.05 ** (1 / 9))
    among = Tally(np.array([9.0, 0, 0]), np.array([9.0, 4, 0]), np.array([0.0, 1, 0]))
    low = gains_low([among, alone])
    assert low[0] == pytest.approx([(0.05 / 3) ** (1 / 9), -1 / 3, 0])
    assert low[1] == pytest.approx([(0.05 / 3) ** (1 / 9)])


def test_cells_are_hidden_in_turns_where_they_are_most_of_a_release(case):
    for name, folds in (("padded", 1), ("simple", contributors.FOLDS)):
        opened = case(name)
        cells = RealCells.of(opened)
        few = np.flatnonzero((cells.number < 3) & cells.is_published)
        smooth = contributors._SmoothFits.of(opened, cells, few)
        assert smooth.folds == folds
        assert [len(fits) for fits in smooth.fits] == [folds] * 2
        share = np.bincount(smooth._fold_of(cells.groups[few], cells.items[few]), minlength=folds) / len(few)
        assert share == pytest.approx(np.full(folds, 1 / folds), abs=0.05)
