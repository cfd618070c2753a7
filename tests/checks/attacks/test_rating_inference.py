"""Test rating inference: what the found record reveals of the target's other ratings, by hand and on releases."""

import made_releases as made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.attacks import rating_inference
from checks.attacks.rating_inference import (
    EVERYTHING,
    _compare,
    _others,
    count_exposed,
    found_record,
    own_record,
    read_everybody,
)
from checks.evidence import release_view
from checks.evidence.views.raw import raw_view
from checks.linkage.drawn_knowledge import draw_knowledge
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule
from checks.registry import registered
from checks.stats import clustered

NO = np.nan

# Two groups of three; published are 4.7, 4, 3, – and –, 1.5, 3.5, 2. Half-way values: 1.5 is 1, 3.5 is 3, 4.5 is 5.
RATINGS = np.array(
    [
        [5, 4, NO, NO],  # read 4.7 and 4: both right.        Others' means 4.5, 7/3: one right.
        [5, NO, 3, NO],  # 4.7, 3: both.                      4.5, 3.5: both.
        [4, 4, NO, NO],  # 4.7, 4: one.                       5, 7/3: none.
        [NO, 1, NO, 2],  # 1.5, 2: both.                      10/3, 2: one.
        [NO, NO, 3, 2],  # 3.5, 2: both.                      3.5, 2: both.
        [NO, 2, 4, NO],  # 1.5, 3.5: neither.                 3, 3: none.
    ]
)
PUBLISHED = np.array([[4.7, 4, 3, NO], [NO, 1.5, 3.5, 2]], dtype=np.float32)


def matrix(table):
    rows, columns = np.nonzero(~np.isnan(table))
    return made.csr(rows, columns, table[rows, columns], table.shape)


@pytest.fixture
def six(tmp_path):
    release = made.Made(matrix(RATINGS), np.repeat([0, 1], 3), PUBLISHED, k=3, l=1, c=1)
    return made.case(release.but(method="predictive-simple"), tmp_path / "six")


def all_people(case):
    return made.rows_of(case, RATINGS)


def result(case):
    check = registered()["rating-inference"]
    return check.run(case, check.threshold)


def test_the_right_record_by_hand(six):
    reading = own_record(six, all_people(six))
    assert reading.right.tolist() == [2, 2, 1, 2, 2, 0]
    assert reading.guessed.tolist() == [1, 2, 0, 1, 2, 0]
    assert reading.trials.tolist() == [2] * 6
    assert reading.risk.rate == pytest.approx(9 / 12)
    assert reading.risk.gain == pytest.approx(3 / 6)
    assert reading.found == 1.0


def test_everybody_by_hand(six, monkeypatch):
    for cells in (1, 2_000_000):  # a block per group, or one for both
        monkeypatch.setattr(release_view, "BLOCK_CELLS", cells)
        people, groups = read_everybody(made.Case(made.Release(six.release.directory), six.truth))
        order = all_people(six)
        assert people.hits[order].tolist() == [2, 2, 1, 2, 2, 0]
        # The other members' levels are 1/6, 0.71, 0.54, −1/8, −0.58, −0.71. They change who is right for the sixth: 3 −
        # 0.71 is 2.
        assert people.luck[order].tolist() == [1, 2, 0, 1, 2, 1]
        assert people.trials[order].tolist() == [2] * 6
        assert [groups.hits.tolist(), groups.luck.tolist(), groups.trials.tolist()] == [
            [5, 4],
            [3, 3],
            [6, 6],
        ]


def test_a_single_person_is_one_too_many(releases, tmp_path):
    """One group shows what one of its members rated; the average hardly moves."""
    release = releases["padded"]
    person = int(np.diff(release.ratings.indptr).argmax())
    values = release.values.copy()
    own = slice(*release.ratings.indptr[person : person + 2])
    values[release.group_of[person], release.ratings.indices[own]] = release.ratings.data[own]
    found = result(made.case(release.but(values=values), tmp_path / "x"))
    assert not found.passed
    assert found.ci_high < 0.42
    assert "are 1 of 300 people" in found.detail
    people = next(o for o in found.outcomes if o.knowledge == "everybody's own record, people")
    assert people.risk.successes == 1


def test_a_group_that_shows_all_its_members_is_exposed(tmp_path):
    """Nobody has enough ratings to be sure of one; five people together have."""
    draw = np.random.default_rng(3)
    ratings = made.csr(
        np.repeat(np.arange(100), 8), np.tile(np.arange(8), 100), draw.choice([1, 5], 800), (100, 8)
    )
    ratings.data[:40] = np.tile([1, 5], 20)  # the first five agree
    values = np.full((20, 8), 3, np.float32)
    values[0] = ratings.data[:8]
    case = made.case(made.Made(ratings, np.arange(100) // 5, values, k=5), tmp_path / "x")
    people, groups = count_exposed(case)
    assert (people.exposed, groups.exposed, groups.tested) == (0, 1, 20)
    assert groups.highest > 0.5 > people.highest


@pytest.mark.parametrize(("alike", "exposed"), [(5, 0), (1, 1)])
def test_a_level_that_all_members_share_exposes_nobody(tmp_path, alike, exposed):
    """Five people who rate everything with 5 are shown as that; one of them among others is not to be."""
    draw = np.random.default_rng(6)
    table = draw.choice([1, 2, 3], (100, 40)).astype(float)
    table[:alike] = 5
    values = np.full((20, 40), 2, np.float32)
    values[0] = 5
    release = made.Made(matrix(table), np.arange(100) // 5, values, k=5)
    people, _ = count_exposed(made.case(release, tmp_path / "x"))
    assert people.exposed == exposed


def test_wrong_record_is_read_and_its_gaps_are_guessed(six):
    people = all_people(six)
    wrong = 1 - six.record_of(people)
    reading = _compare(six, "wrong", wrong, draw_knowledge(six.truth, people, EVERYTHING))
    # First: item 0 is not there and guessed right, 1.5 is no 4. Second: guessed right, 3.5 rounds to 3. Third: guessed
    # wrong, wrong. Fourth: 4 is no 1, item 3 is guessed right. Fifth: 3 is 3, guessed right. Sixth: 4 no 2, 3 no 4.
    assert reading.right.tolist() == [1, 2, 0, 1, 2, 0]
    assert reading.found == 0.0
    no_record = _compare(six, "none", np.full(6, -1), draw_knowledge(six.truth, people, EVERYTHING))
    assert no_record.right.tolist() == no_record.guessed.tolist()
    assert no_record.risk.gain == 0


def test_only_what_is_not_known_is_read(six):
    people = all_people(six)
    knows = draw_knowledge(six.truth, people, Model(1))
    others = _others(six, knows)
    assert np.diff(others.indptr).tolist() == [1] * 6
    both = np.sort(np.stack([knows.items, others.items]), axis=0)
    assert both.T.tolist() == [np.flatnonzero(~np.isnan(row)).tolist() for row in RATINGS]
    assert _others(six, draw_knowledge(six.truth, people, Model(2))).items.tolist() == []
    assert found_record(six, people, Model(2)).risk.n == 0


def test_too_few_ratings_to_read_fail(six):
    found = result(six)
    assert not found.passed
    assert "too few ratings" in found.detail


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_good_releases_pass_with_some_gain(case, name):
    found = result(case(name))
    assert found.passed, found.detail
    assert found.control
    assert 0 < found.ci_high < 0.42
    assert found.planned == found.n
    names = [outcome.knowledge for outcome in found.outcomes]
    assert {"the right record", "the right record, heavy raters", "16 random, exact, heavy raters"} <= set(
        names
    )


def test_single_contributors_and_raw_data_reveal_ratings(case):
    opened = case("single contributors")
    found = result(opened)
    assert not found.passed
    assert found.ci_low > 0.55
    raw = result(raw_view(opened))
    assert (raw.passed, raw.control) == (False, True)
    assert raw.observed == pytest.approx(1)


def test_groups_of_people_who_agree_are_refused(ratings, tmp_path):
    """Definition 5.1: all members of a group gave the same items the same ratings."""
    same = ratings[np.arange(300) // 5 * 5]
    values = ratings[::5].toarray()
    values[values == 0] = np.nan
    release = made.Made(same, np.arange(300) // 5, values, k=5, c=3, method="predictive-simple")
    found = result(made.case(release, tmp_path / "same"))
    assert not found.passed
    assert found.ci_low > 0.9
    assert found.control


def test_the_control_dies_with_the_attack(case, monkeypatch):
    monkeypatch.setattr(rating_inference, "rule", lambda world: Rule(np.zeros(len(world.raters))))
    assert result(case("padded")).control is False


def test_trials_of_one_target_count_together():
    risk = clustered(np.array([2.0, 0.0]), np.array([2, 2]), 0.25)
    assert (risk.rate, risk.n, risk.baseline) == (
        0.5,
        1,
        0.25,
    )  # two targets, each all or nothing: no better than one
    assert clustered(np.array([3.0, 3.0]), np.array([3, 3]), 0.0).n == 2
    assert clustered(np.array([1.0, 1.0]), np.array([2, 2]), 0.0).n == 2
    assert clustered(np.zeros(2), np.zeros(2), 0.0).interval == (0.0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_clustering_keeps_the_rate_and_never_adds_trials(pairs):
    trials = np.array([n + extra for n, extra in pairs])
    right = np.array([n for n, _ in pairs], float)
    risk = clustered(right, trials, 0.0)
    assert 0 <= risk.n <= max(trials.sum(), 0)
    assert risk.rate == pytest.approx(right.sum() / trials.sum() if trials.sum() else 0)
    assert risk.interval[0] - 1e-9 <= risk.rate <= risk.interval[1] + 1e-9


@pytest.mark.data
def test_movielens(real_data, tmp_path):
    """Good releases of real people stay far from the bar, published single ratings far above it."""
    place = real_data("ml-100k")
    lines = (place / "u.data").read_text(encoding="latin-1").splitlines()
    table = np.array([line.split("\t")[:3] for line in lines])
    users, rows = np.unique(table[:, 0], return_inverse=True)
    items, columns = np.unique(table[:, 1], return_inverse=True)
    ratings = made.csr(rows, columns, table[:, 2].astype(np.float32), (len(users), len(items)))
    model = made.fit(ratings, rank=16, sweeps=6)
    bounds = {}
    for c in (1, 3):
        release = made.grouped(ratings, 5, shape="simple", c=c, model=model)
        release = release.but(user_ids=users.tolist(), item_ids=items.tolist())
        opened = made.case(release, tmp_path / str(c))
        found = result(opened)
        bounds[c] = (found.passed, found.ci_low, found.ci_high)
    assert bounds[3][0]
    assert bounds[3][2] < 0.3
    assert not bounds[1][0]
    assert bounds[1][1] > 0.6
