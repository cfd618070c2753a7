"""Test own-ratings: one person whose record follows their ratings is found, on any scale; luck exposes no one."""

import math

import made_releases as made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from test_bad_releases import alike, names_removed, noisy, single, table

from checks.attacks import own_ratings
from checks.evidence.views.raw import raw_view
from checks.registry import registered
from checks.stats import correlation, correlations, fisher_low, runs

NO = np.nan
GIVEN = [1, 1, 2, 2, 4, 4, 5, 5]  # mean 3, squares 20


def judged(case, threshold=0.0):
    """What the check finds; its control succeeds unless a test makes it fail."""
    found = registered()["own-ratings"].run(case, threshold)
    assert found.control
    assert found.planned == found.n
    return found


@pytest.fixture
def opened(tmp_path):
    return lambda release: made.case(release, tmp_path / "release")


def six_people():
    """Two groups of three; all gave the same ratings to eight items which no other member has."""
    ratings = np.full((6, 24), NO)
    for person in range(6):
        ratings[person, 8 * (person % 3) : 8 * (person % 3) + 8] = GIVEN
    upside_down, flat, swapped = [6 - r for r in GIVEN], [3] * 8, [1, 1, 2, 2, 5, 5, 4, 4]
    moved, mixed, halved = (
        [1.1, 1.1, 2.1, 2.1, 4.1, 4.1, 4.9, 4.9],
        [1, 2, 1, 2, 4, 4, 5, 5],
        [2 + r / 2 for r in GIVEN],
    )
    values = np.array([upside_down + flat + swapped, moved + mixed + halved], dtype=np.float32)
    rows, columns = np.nonzero(~np.isnan(ratings))
    known = made.csr(rows, columns, ratings[rows, columns], ratings.shape)
    return made.Made(known, np.repeat([0, 1], 3), values, k=3, l=1, c=3)


def test_six_people_by_hand(opened):
    # r: −1; none; (4+4+1+1 + 2+2+2+2)/20 = .9; deviations −1.95, −.95, 1.05, 1.85 twice each: 19.2/√(20·18.46);
    # (4+2+2+1 + 1+1+4+4)/20 = .95; 1. Two views (every cell has one contributor) of six people: twelve tests.
    case = opened(six_people())
    rs = [0, 0.9, 0.95, 19.2 / math.sqrt(20 * 18.46), 0.999999, 0.999999]
    spread = norm.isf(0.025 / 12) / math.sqrt(8 - 3)
    few, whole = own_ratings._cell_views(case)
    expected = [math.tanh(math.atanh(r) - spread) for r in rs]
    for view in (few, whole):
        assert np.sort(view.bounds(view.r, 12)) == pytest.approx(expected, abs=1e-5)
    found = judged(case)
    assert (found.passed, found.observed, found.n) == (False, 0.5, 6)
    assert found.detail.startswith("3 of 6 testable people are exposed")
    assert "with people's own ratings in these cells 100.0% would be exposed" in found.detail
    all_people, heavy = found.outcomes
    assert (all_people.risk.successes, all_people.risk.n, heavy.risk.n) == (3, 6, 6)  # all gave as many
    assert judged(case, 0.5).passed  # the owner may loosen it


def test_orders_by_hand(opened):
    view = own_ratings._cell_views(opened(six_people()))[0]
    assert np.exp(view.log_orders) == pytest.approx([math.factorial(8) / 2**4] * 6)


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_good_release_exposes_no_person(case, name):
    found = judged(case(name))
    assert found.passed, found.detail
    assert (found.observed, found.ci_low) == (0, 0)
    assert found.n > 250
    assert found.outcomes[0].more["highest_bound"] < 0.9


def led(release):
    """The middle rater of every group is published, a tenth off; all other values are even tenths."""
    rated = np.diff(release.ratings.indptr)
    values, leaders = np.round(np.floor(release.values * 5) / 5, 1), []
    for group in range(release.n_groups):
        members = np.flatnonzero(release.group_of == group)
        leader = members[np.argsort(rated[members])[len(members) // 2]]
        own = slice(release.ratings.indptr[leader], release.ratings.indptr[leader + 1])
        true = release.ratings.data[own]
        values[group, release.ratings.indices[own]] = np.where(true < 5, true + 0.1, true - 0.1)
        leaders.append(leader)
    return release.but(values=values, shadow=None), leaders


def test_groups_that_publish_one_member_are_refused(releases, opened):
    release, leaders = led(releases["simple"])
    found = judged(opened(release))
    assert not found.passed
    assert 0.9 * len(leaders) <= found.observed * found.n <= len(leaders)


def test_published_members_fail_with_enough_contributors_too(opened):
    """Nearly every person rated everything: hardly a cell has fewer than three, and the leader shows in all of them."""
    ratings = made.synthetic(100, 40, 1.6)
    release, leaders = led(made.grouped(ratings, 5, shape="simple", rank=4))
    found = judged(opened(release))
    assert not found.passed
    assert found.observed * found.n == pytest.approx(len(leaders), abs=1)
    assert "cells with fewer than 3 contributors: no person can be tested" in found.detail


def test_one_exposed_person_among_many_fails(releases, opened):
    release = releases["padded"]
    values, own = release.values.copy(), release.ratings[[17]]
    values[release.group_of[17], own.indices] = own.data
    found = judged(opened(release.but(values=values, shadow=None)))
    assert not found.passed
    assert found.observed == pytest.approx(1 / found.n)


def recoded(ratings, people, how):
    """A record per person, full of uninformative values except for these people's."""
    true = table(ratings)
    values = np.random.default_rng(1).integers(1, 6, true.shape).astype(np.float32)
    mine = np.zeros(true.shape, dtype=bool)
    mine[people] = ~np.isnan(true[people])
    values[mine] = how(true[mine])
    return single(ratings, values, "obfuscation", step=0.1)


RECODED = {"as they are": lambda r: r, "mirrored": lambda r: 6 - r, "squeezed": lambda r: 2 + 0.3 * r}


@pytest.mark.parametrize("how", RECODED)
def test_single_people_published_on_another_scale_are_refused(ratings, opened, how):
    exposed = np.arange(0, 300, 7)  # 15 %
    found = judged(opened(recoded(ratings, exposed, RECODED[how])))
    seen = found.outcomes[0].risk.successes
    assert 0.9 * len(exposed) <= seen <= len(exposed)
    # As they are, they are seen by the attacks that seek people, and judged by those.
    if how == "as they are":
        assert (found.passed, found.observed) == (True, 0)
    else:  # a few of the squeezed are near enough to be seen, too
        assert not found.passed
        assert found.observed * found.n >= 0.8 * seen


def test_uninformative_values_pass(ratings, opened):
    found = judged(opened(recoded(ratings, np.arange(0), RECODED["mirrored"])))
    assert found.passed
    assert found.n > 250


def test_noise_hides_the_ratings_and_no_noise_does_not(ratings, tmp_path):
    assert judged(made.case(noisy(ratings), tmp_path / "noisy")).observed == 0
    plain = judged(made.case(names_removed(ratings), tmp_path / "raw"))
    assert (plain.passed, plain.outcomes[0].risk.rate) == (True, 1)  # others refuse it


def test_other_checks_fail_on_published_members(case, tmp_path):
    """Single contributors follow; a fifth part in a mean does not (recovery finds it); like-minded groups do."""
    assert judged(case("single contributors")).observed > 0.3
    assert judged(case("observed kept")).observed == 0
    assert not judged(made.case(alike(), tmp_path / "alike")).passed


def test_raw_data_expose_every_person(case):
    found = judged(raw_view(case()))
    all_people, heavy = found.outcomes
    assert (all_people.risk.rate, heavy.risk.rate) == (1, 1)
    assert 0 < heavy.risk.n < all_people.risk.n


def small_records(values, given, people=200):
    """People with a record each of the same few items, and the same ratings in any order."""
    draw = np.random.default_rng(2)
    ratings = np.array([draw.permutation(given) for _ in range(people)], dtype=np.float32)
    known = made.csr(*np.indices(ratings.shape).reshape(2, -1), ratings.ravel(), ratings.shape)
    return single(known, np.tile(np.float32(values), (people, 1)), "perturbation", step=0.1)


def test_luck_exposes_no_person(opened):
    """One low rating in nine: a ninth of the records with one low value have it in the right place."""
    case = opened(small_records([4] * 8 + [3], [4] * 8 + [3]))
    (view,) = own_ratings._cell_views(case)
    assert 10 < (fisher_low(view.r, view.cells, 4) > 0.95).sum() < 40  # by luck
    found = judged(case)
    assert (found.passed, found.n, found.observed) == (True, 0, 0)
    assert not found.applicable
    assert [outcome.to_json()["n"] for outcome in found.outcomes] == [0, 0]


@pytest.mark.slow
def test_the_bound_holds_for_all_people_together():
    """Records that follow their people by r = .9, which is allowed: among 20,000 some look like more."""
    draw, people = np.random.default_rng(0), 20_000
    owner = np.repeat(np.arange(people), draw.integers(8, 40, people))
    ratings = np.clip(np.rint(draw.normal(3.5, 1, len(owner))), 1, 5)
    values = ratings + ratings.std() * math.sqrt(1 / 0.9**2 - 1) * draw.normal(size=len(owner))
    view = own_ratings._CellView.empty("all cells", people)
    view.add(owner, ratings, values, 6 - ratings)
    assert (fisher_low(view.r, view.cells) > 0.95).sum() > 5  # each by itself, at 95 %
    bound = view.bounds(view.r, people)
    assert (~np.isnan(bound)).sum() > people / 2
    assert np.nanmax(bound) < 0.95
    assert np.nanmin(view.bounds(view.rounded, people)) > 0.95  # no testable person could hide


def test_seven_cells_or_a_constant_record_expose_no_person(tmp_path):
    seven = small_records([1, 2, 3, 4, 5, 3, 3], [1, 2, 3, 4, 5, 3, 3])
    assert judged(made.case(seven, tmp_path / "seven")).n == 0
    flat = small_records([3.0] * 12, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 2, 3])
    found = judged(made.case(flat, tmp_path / "flat"))
    assert (found.passed, found.n, found.observed) == (True, 200, 0)


def test_the_control_dies_with_the_attack(case, monkeypatch):
    monkeypatch.setattr(own_ratings, "correlations", lambda starts, x, y: np.zeros(len(starts) - 1))
    found = registered()["own-ratings"].run(case(), 0.0)
    assert found.n > 250
    assert found.control is False  # the gate makes a failure of it


def test_coarse_steps_do_not_void_own_ratings(releases, opened):
    found = judged(opened(releases["padded"].but(step=4.0)))
    assert found.passed
    assert "(steps of 4 hide them), 100.0% if not rounded" in found.detail


pairs = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(10, 50)), min_size=1, max_size=40
)


@given(pairs, st.sampled_from([-2.0, -0.1, 0.3, 5.0]), st.floats(-10, 10))
def test_correlations_are_those_of_each_owner_on_any_scale(rows, unit, offset):
    owner, x, y = (np.array(column) for column in zip(*sorted(rows), strict=True))
    x, y = x.astype(float), y.astype(float)
    who, starts = runs(owner)
    assert who.tolist() == sorted(set(owner.tolist()))
    n = np.diff(starts)
    r, turned = correlations(starts, x, y), correlations(starts, x, y * unit + offset)
    low = fisher_low(r, n)
    for place, one in enumerate(who):
        mine = owner == one
        alone = correlation(x[mine], y[mine])
        assert n[place] == mine.sum()
        assert r[place] == pytest.approx(alone[0], abs=1e-9)
        assert turned[place] == pytest.approx(math.copysign(1, unit) * alone[0], abs=1e-6)
        if n[place] > 3 and alone != (0, 0, 0):
            assert low[place] == pytest.approx(alone[1], abs=1e-6)


def test_no_people_give_no_runs():
    who, starts = runs(np.zeros(0, np.int32))
    assert (len(who), starts.tolist()) == (0, [0])
