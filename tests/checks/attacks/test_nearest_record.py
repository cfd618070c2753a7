"""Test nearest-record linkage: distances worked out by hand, both directions, and what it refuses."""

import made_releases as made
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checks.attacks import nearest_record
from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.truth import Truth
from checks.evidence.views.raw import RawRelease, raw_view
from checks.linkage import nearest
from checks.linkage.item_weights import item_weights
from checks.linkage.nearest import Way, have_no_twin, nearest_by_each, nearest_records
from checks.registry import registered

NO = np.nan

# Two groups of three; published are 4.7, 4, 3, – and –, 1.5, 3.5, 2. Around 3, the centre of the scale:
# 1.7, 1, 0, 0 and 0, −1.5, 0.5, −1.
RATINGS = np.array(
    [
        [5, 4, NO, NO],  # 2, 1, 0, 0: to its group .3² = .09
        [5, NO, 3, NO],  # 2, 0, 0, 0: .09 + 1
        [4, 4, NO, NO],  # 1, 1, 0, 0: .7² = .49
        [NO, 1, NO, 2],  # 0, −2, 0, −1: .25 + .25
        [NO, NO, 3, 2],  # 0, 0, 0, −1: 2.25 + .25
        [NO, 2, 4, NO],  # 0, −1, 1, 0: .25 + .25 + 1
    ]
)
PUBLISHED = np.array([[4.7, 4, 3, NO], [NO, 1.5, 3.5, 2]], dtype=np.float32)


def matrix(table):
    rows, columns = np.nonzero(~np.isnan(table))
    return made.csr(rows, columns, table[rows, columns], table.shape)


def raw_case(table):
    """People's ratings as they are, without any files but the scratch ones."""
    names = pa.array([str(n) for n in range(len(table))], pa.string())
    people = np.arange(len(table), dtype=np.int32)
    ratings = matrix(table)
    raters = np.bincount(ratings.indices, minlength=table.shape[1])
    truth = Truth(Membership(names, names, people), ratings, people, raters, people >= 0, 0, 0)
    return Case(RawRelease(truth, low=1.0, high=5.0), truth)


@pytest.fixture
def six(tmp_path):
    release = made.Made(matrix(RATINGS), np.repeat([0, 1], 3), PUBLISHED, k=3, l=1, c=1)
    return made.case(release.but(method="predictive-simple"), tmp_path / "six")


def all_people(case):
    return made.rows_of(case, RATINGS)


def test_distances_by_hand(six):
    people = all_people(six)
    own = six.record_of(people)
    found = nearest_records(six, six.truth.ratings[people], own=own)
    assert found.distance**2 == pytest.approx([0.09, 1.09, 0.49, 0.5, 2.5, 1.5])
    assert found.ranks.best_at.tolist() == own.tolist()
    assert found.ranks.user_rank.tolist() == [3] * 6
    assert found.hit.tolist() == [1] * 6


def test_distances_over_rated_items_and_with_another_fill(six):
    people = all_people(six)[[4]]  # rated item 2 with 3 and item 3 with 2
    ratings, own = six.truth.ratings[people], six.record_of(people)
    rated = nearest_records(six, ratings, own=own, way=Way(rated_only=True))
    assert rated.distance**2 == pytest.approx([0.25])
    # Fill 5, 4, 3, 3: the person is 5, 4, 3, 2. Group 0 (4.7, 4, 3, 3) is .09 + 1 away, group 1 (5, 1.5, 3.5, 2)
    # 6.25 + .25.
    filled = nearest_records(six, ratings, own=own, way=Way(np.array([5.0, 4, 3, 3])))
    assert filled.distance**2 == pytest.approx([1.09])
    assert (filled.ranks.top.tolist(), filled.hit.tolist()) == ([0], [0])
    assert filled.ranks.group_rank.tolist() == [2]


def test_weighted_distances_by_hand(six):
    people = all_people(six)[[1, 4]]  # 2, 0, 0, 0 and 0, 0, 0, −1 around the centre
    weights = np.array([1.0, 2, 0, 3])
    found = nearest_records(
        six, six.truth.ratings[people], own=six.record_of(people), way=Way(weights=weights)
    )
    # To 1.7, 1, 0, 0: .09 + 2 · 1. To 0, −1.5, .5, −1: 2 · 2.25; the other group is 1.7² + 2 + 3 away.
    assert found.distance**2 == pytest.approx([2.09, 4.5])
    rated = nearest_records(
        six, six.truth.ratings[people], own=six.record_of(people), way=Way(weights=weights, rated_only=True)
    )
    assert rated.distance**2 == pytest.approx([0.09, 0])


def test_items_weigh_by_how_little_they_vary_by_hand(tmp_path):
    # Around 3, published: 2, −2, 2, −2 (variance 4, median distance 2); 0, 0, 0, 4 (3 and none: 3); 0 throughout.
    # Rated by two people 5 and 1, and no other: (4 + 4) / 4 = 2; by one 4: 1/4 − 1/16 = 3/16; the last always 3.
    ratings = matrix(np.array([[5, 4, 3], [1, NO, 3], [NO, NO, 3], [NO, NO, 3]], dtype=float))
    published = np.array([[5, 3, 3], [1, 3, 3], [5, 3, 3], [1, 7, 3]], np.float32)
    release = made.Made(ratings, np.arange(4), published, k=2, step=0.0, method="perturbation")
    found = item_weights(made.case(release, tmp_path / "four"))
    relative = {name: (by / by.max()).tolist() for name, by in found.items()}
    assert relative["the published variance"] == pytest.approx([0.75, 1, 0])
    assert relative["the published median distance"] == pytest.approx([0.75, 1, 0])
    assert relative["the original variance"] == pytest.approx([3 / 32, 1, 0])
    assert all(by.mean() == pytest.approx(1) for by in found.values())


def test_a_tie_counts_one_over_its_number():
    case = raw_case(np.array([[4, 4], [4, 4], [4, 2], [1, 1]], dtype=float))
    found = nearest_records(case, case.truth.ratings, own=np.arange(4))
    assert found.ranks.identification.tolist() == [0.5, 0.5, 1, 1]
    assert found.ranks.user_rank.tolist() == [2, 2, 1, 1]
    assert found.hit.tolist() == [0.5, 0.5, 1, 1]
    assert have_no_twin(case, np.arange(4)).tolist() == [False, False, True, True]
    gone = nearest_records(case, case.truth.ratings, leave_out=np.arange(4))
    assert gone.distance**2 == pytest.approx([0, 0, 4, 10])
    labelled = nearest_records(
        case, case.truth.ratings[[0]], labels=np.array([7, 8, 8, 8]), own_label=np.array([8])
    )
    assert labelled.hit.tolist() == [0.5]


def test_both_directions_by_hand(six):
    found = registered()["nearest-record"].run(six, 1.0)
    # Every person is nearest to the own group of three; but with the items' means (4.67, 2.75, 3.33, 2) filled in, the
    # fifth person is (4 − 2.75)² from group 0 and (1.5 − 2.75)² + .5² from the own. Groups are nearest to the first
    # and the fourth person.
    assert found.observed == pytest.approx(1 / 3)
    assert (found.passed, found.control, found.n, found.planned) == (True, True, 20, 20)
    assert [o.knowledge for o in found.outcomes][3] == "from record to original"
    assert [o.risk.rate for o in found.outcomes] == pytest.approx([1 / 3, 5 / 18, 1 / 3, 1 / 3])
    assert [o.risk.n for o in found.outcomes] == [6, 6, 6, 2]
    assert found.outcomes[0].group_top[1] == 1.0
    six.release.k = 4
    refused = registered()["nearest-record"].run(six, 1.0)
    assert not refused.passed
    assert "6 people are within the first 3" in refused.detail


def test_raw_data_and_noise_of_one_level_are_refused(case, ratings, tmp_path):
    good = case("padded")
    check = registered()["nearest-record"]
    found = check.run(good, 1.0)
    assert found.passed
    assert found.control
    raw = check.run(raw_view(good), 1.0)
    assert (raw.passed, raw.observed, raw.control) == (False, 1.0, True)
    noisy = np.clip(ratings.data + np.random.default_rng(0).integers(-1, 2, ratings.nnz), 1, 5)
    table = np.full(ratings.shape, np.nan, np.float32)
    table[np.repeat(np.arange(300), np.diff(ratings.indptr)), ratings.indices] = noisy
    release = made.Made(ratings, np.arange(300, dtype=np.int32), table, k=5, method="perturbation")
    disturbed = check.run(made.case(release, tmp_path / "noise"), 1.0)
    assert not disturbed.passed
    assert disturbed.ci_low > 0.9


def test_twins_everywhere_are_inconclusive(tmp_path):
    ratings = matrix(np.tile([[5.0, 1, 3], [2, 4, 1]], (3, 1)))
    release = made.Made(ratings, np.array([0, 1] * 3), np.array([[5, 1, 3], [2, 4, 1]], np.float32), k=3)
    found = registered()["nearest-record"].run(made.case(release, tmp_path / "twins"), 1.0)
    assert found.control is False
    assert "of 0 people in the raw data who have no twin" in found.detail


def test_records_are_sampled_in_order(six, monkeypatch):
    monkeypatch.setattr(nearest_record, "sample_size", lambda _: 1)
    (record,) = nearest_record._some_records(six)
    assert nearest_record._profiles(six, np.array([record])).toarray() == pytest.approx(
        np.nan_to_num(PUBLISHED[[record]]), abs=1e-6
    )


def test_costly_comparisons_use_fewer_people_and_records(six, monkeypatch):
    assert nearest_record._some_targets(six).tolist() == six.targets("knowledge").tolist()
    monkeypatch.setattr(nearest_record, "FEWEST_RECORDS", 1)
    monkeypatch.setattr(nearest_record, "FEWEST_PEOPLE", 3)
    monkeypatch.setattr(nearest_record, "MOST_STEPS", 12)  # six people with two ratings each, two records: 24
    some = nearest_record._some_targets(six)
    assert some.tolist() == six.targets("knowledge")[::2].tolist()
    assert len(nearest_record._some_records(six)) == 1  # compared with all twelve ratings
    found = registered()["nearest-record"].run(six, 1.0)
    assert found.planned == found.n == 3 * 3 + 1
    assert "Tried are 3 of the usual 6 people and 1 of 2 different records" in found.detail


@given(st.integers(0, 3000), st.integers(0, 10**14))
def test_at_least_a_minimum_of_people_is_tried(number, steps):
    some = nearest_record._fewer(np.arange(number), steps)
    assert len(some) >= min(number, nearest_record.FEWEST_PEOPLE)
    assert len(some) == number or steps > nearest_record.MOST_STEPS


ratings_tables = st.integers(1, 6).flatmap(
    lambda items: st.lists(
        st.lists(st.sampled_from([NO, 1.0, 2.0, 3.0, 4.0, 5.0]), min_size=items, max_size=items),
        min_size=2,
        max_size=7,
    )
)


EVERYBODY_RATED_EVERYTHING = np.random.default_rng(6).integers(1, 6, (7, 4)).astype(float)


@settings(max_examples=25, deadline=None)
@given(ratings_tables, st.lists(st.booleans(), min_size=1, max_size=5), st.integers(1, 3))
@example(EVERYBODY_RATED_EVERYTHING, [True, False, True], 2)
@example(EVERYBODY_RATED_EVERYTHING, [False, True, False, True, False], 7)
def test_nearest_matches_brute_force_for_any_blocks_and_ways(table, rated_only, block):
    table = np.array(table)
    case = raw_case(table)
    fill, weights = np.linspace(2, 4, table.shape[1]), np.linspace(1, 3, table.shape[1])
    ways = [Way(fill + number / 8, only, weights) for number, only in enumerate(rated_only)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "BLOCK_TARGETS", block)
        own = np.arange(len(table))
        by_each = nearest_by_each(case, sp.csr_array(case.truth.ratings), ways, own=own)
    there = ~np.isnan(table)
    for way, found in zip(ways, by_each, strict=True):
        filled = np.where(there, table, way.fill)
        apart = weights * (filled[:, None] - filled[None]) ** 2
        squares = (apart * there[:, None] if way.rated_only else apart).sum(axis=2)
        assert found.distance**2 == pytest.approx(squares.min(axis=1), abs=1e-5)
        ties = (np.abs(squares - squares.min(axis=1)[:, None]) < 1e-7).sum(axis=1)
        assert found.hit == pytest.approx(1 / ties)  # the own record is at distance 0


def test_no_record_and_no_profile():
    case = raw_case(np.array([[4.0, NO]]))
    empty = nearest_records(case, case.truth.ratings[:0])
    assert len(empty) == 0
    alone = nearest_records(case, case.truth.ratings, leave_out=np.array([0]))
    assert alone.hit.tolist() == [0]
