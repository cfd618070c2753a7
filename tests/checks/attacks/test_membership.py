"""Test membership inference: its signals, its thresholds, what it refuses and what it does not."""

import shutil
from dataclasses import replace

import made_releases as made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import gate
from checks.attacks import membership_inference as membership
from checks.attacks.membership_inference import SIGNALS, area_under_curve, best_threshold, guess
from checks.evidence.views.raw import raw_view
from checks.evidence.views.shadow import open_shadow
from checks.linkage.absent_people import shadow_draws
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.membership_signals import SIGNALS as RECORD_SIGNALS
from checks.linkage.membership_signals import measure_signals
from checks.linkage.postings import postings_of
from checks.linkage.rules import Rule
from checks.registry import registered
from checks.stats import difference

NO = np.nan
CHECK = registered()["membership-inference"]


def judged(case):
    return gate.run_check(CHECK, case, CHECK.threshold)


def names_removed(ratings, **changes):
    """One record per person, as it is."""
    dense = ratings.toarray()
    values = np.where(dense > 0, dense, NO).astype(np.float32)
    all_people = np.arange(ratings.shape[0])
    return made.Made(ratings, all_people, values, k=5, c=1, step=1.0, method="suppression").but(**changes)


# Two records of four items: 4, 2, –, – and –, 5, 3, –.
VALUES = np.array([[4, 2, NO, NO], [NO, 5, 3, NO]], dtype=np.float32)


def test_signals_by_hand(tmp_path):
    ratings = made.csr(np.repeat(np.arange(4), 2), np.tile([0, 1], 4), np.tile([4, 2], 4), (4, 4))
    opened = made.case(made.Made(ratings, np.array([0, 0, 1, 1]), VALUES, k=2, step=1.0), tmp_path / "x")
    knows = Knowledge(
        "by hand", np.arange(3), np.array([0, 2, 4, 4]), np.array([0, 1, 1, 3]), np.float32([4, 2, 3, 5])
    )
    found = measure_signals(postings_of(opened), Rule(np.ones(4), "decay", 1.5), np.full(4, 3.0), knows)
    # First: the first record agrees on both. Second: it is 1 off on one item of two, 1² against 0² + 2² of the
    # means. Of two records, one is always 2 standard deviations above the other. Third: nothing is known.
    assert found[0].tolist() == pytest.approx([1, 2, 1, 1])
    assert found[1].tolist() == pytest.approx([np.exp(-1 / 1.5) / 2, 2, 0.5, 1 - np.sqrt(5 / 4)])
    assert found[2].tolist() == [0, 0, 0, 0]
    assert len(RECORD_SIGNALS) == found.shape[1]


def test_continuous_ratings_give_the_same_signals(tmp_path):
    """Lists shorter than the number of levels are compared directly, longer ones through a table."""
    opened = made.case(names_removed(made.synthetic(60, 12, 0.5, seed=4)), tmp_path / "x")
    fine = made.case(names_removed(made.synthetic(60, 12, 0.5, seed=4), step=0.01), tmp_path / "y")
    # The judge's draws follow from the release: the same ones for both here.
    alike = [replace(c, given_truth=replace(c.truth, salt="")) for c in (opened, fine)]
    one, other = (membership._signals(c, c.targets("x"), Model(4)) for c in alike)
    by_record = slice(len(RECORD_SIGNALS))  # the whitened ones depend on the noise of rounding
    np.testing.assert_allclose(one[:, by_record], other[:, by_record], atol=1e-6)


def test_the_threshold_with_the_largest_advantage():
    members = np.array([[0.5, 3], [0.5, 4], [0.5, 1], [0.5, 5]])
    absent = np.array([[0.5, 0], [0.5, 2], [0.5, 3]])
    # From 3 on: three of four members, one of three absent people; from 4 on: two of four and none.
    assert best_threshold(members, absent) == (1, 4.0)
    assert best_threshold(members[:, :1], absent[:, :1]) == (0, 0.5)


def test_area_under_the_curve():
    assert area_under_curve(np.array([2, 3]), np.array([0, 1])) == 1
    assert area_under_curve(np.array([1, 2]), np.array([1, 3])) == 1.5 / 4
    assert area_under_curve(np.array([1, np.inf]), np.array([1, 1])) == 3 / 4


@given(*(st.lists(st.integers(0, 5), min_size=1, max_size=30).map(np.array) for _ in range(2)))
def test_exchanging_the_sides_mirrors_the_area(one, other):
    assert area_under_curve(one, other) + area_under_curve(other, one) == pytest.approx(1)
    sign, threshold = best_threshold(one[:, None], other[:, None])
    assert sign == 0
    assert np.mean(one >= threshold) - np.mean(other >= threshold) >= 0  # calling all people members gives 0


def test_newcombes_interval():
    """Newcombe (1998), table II, method 10: 56/70 − 48/80, and the cases at the ends."""
    assert difference((56, 70), (48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert difference((10, 10), (0, 20)) == pytest.approx((0.6791, 1.0), abs=5e-5)
    assert difference((9, 10), (3, 10)) == pytest.approx((0.1705, 0.8090), abs=5e-5)


def test_raw_data_with_names_removed_are_refused(ratings, tmp_path):
    result = judged(made.case(names_removed(ratings), tmp_path / "raw"))
    assert not result.passed
    assert result.observed == 1
    assert result.ci_high > result.threshold == 1 / 5 + 1 / 4
    assert not result.void


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_good_releases_pass(case, name):
    result = judged(case(name))
    assert result.passed, result.detail
    assert result.ci_low <= result.observed <= result.ci_high <= result.threshold == 1 / 5 + 1 / 4
    gated, _, reported = result.detail.split("Control")[0].partition("Reported, not gated")
    assert "4 random" in gated
    for known in (
        "8 random",
        "16 random",
        "everything rated",
    ):  # where groups list what was rated, only reported
        assert (known in gated) == (name == "padded")
        assert (known in reported) == (name == "simple")


@pytest.mark.parametrize(
    ("k", "asked", "allowed"), [(5, 0.75, 0.45), (20, 0.75, 0.3), (2, 0.75, 0.75), (5, 0.2, 0.2)]
)
def test_what_is_allowed_follows_from_k(case, k, asked, allowed):
    """An owner can only lower it."""
    opened = case("simple")
    opened.release.k = k
    assert gate.run_check(CHECK, opened, asked).threshold == pytest.approx(allowed)


def test_a_model_that_fits_single_people_is_refused_by_its_directions(ratings, tmp_path):
    """The same ratings and groups of five, with a model that follows every rating; nothing else is published."""
    leaky = made.grouped(ratings, 5, rank=12, reg=0.06)
    result = judged(made.case(leaky, tmp_path / "leaky"))
    assert not result.passed
    assert not result.void
    everything = result.outcomes[-1]
    assert everything.knowledge == "everything rated, exact"
    assert everything.more["auc"] > 0.75
    assert "raters to the" in everything.more["sign"]


def test_shuffled_membership_cannot_be_inferred(ratings, tmp_path):
    """Negative control: the same leaky release, with members and absent people exchanged at random."""
    [draw] = shadow_draws(made.case(made.grouped(ratings, 5, rank=12, reg=0.06), tmp_path / "leaky"))
    people = np.concatenate([draw.members, draw.absent])
    areas, advantages = [], []
    for seed in range(12):
        mixed = np.random.default_rng(seed).permutation(people)
        members, absent = mixed[: len(draw.members)], mixed[len(draw.members) :]
        found = guess([replace(draw, members=members, absent=absent)], Model(0, "all"))
        areas.append(found.auc)
        advantages.append(found.advantage)
    assert np.mean(areas) == pytest.approx(0.5, abs=0.08)
    assert np.mean(advantages) == pytest.approx(0, abs=0.12)


def test_what_murmur_attack_prints(case):
    opened = case("simple")
    finding = CHECK.run(opened, CHECK.threshold)
    assert [o.knowledge for o in finding.outcomes] == [
        "4 random, exact",
        "8 random, exact",
        "16 random, exact",
        "everything rated, exact",
    ]
    assert finding.n == finding.planned == 4 * 300
    reported = finding.outcomes[-1].to_json()
    assert reported["n"] == 285
    assert reported["absent"] == 15
    assert set(reported["sign"].split(" and ")) <= set(SIGNALS)
    assert reported["heavy"] == "top third"  # of 15 absent people a tenth is too few
    assert 0.5 < reported["heavy_auc"] <= 1
    assert reported["advantage"] == pytest.approx(reported["risk"] - reported["baseline"], abs=2e-6)
    assert reported["advantage_low"] <= reported["advantage"] <= reported["advantage_high"]
    # With all ratings known, a member's items all lie in one group: reported, and the reason why it does not gate.
    assert reported["advantage"] > 0.5


def test_membership_runs_on_raw_data_alone(case):
    finding = CHECK.run(raw_view(case()), CHECK.threshold)
    assert not finding.passed
    assert finding.observed == pytest.approx(1, abs=0.05)


def test_dead_control_voids_membership(tmp_path):
    """All people gave the same ratings: absence cannot be seen in the raw data either."""
    rows, columns = np.nonzero(np.ones((300, 20)))
    alike = made.csr(rows, columns, np.full(len(rows), 3), (300, 20))
    values = np.full((60, 20), 3, dtype=np.float32)
    release = made.Made(alike, np.arange(300) // 5, values, k=5, step=1.0)
    result = judged(made.case(release, tmp_path / "alike"))
    assert not result.passed
    assert result.void


def test_small_data_pass_without_absent_people(tmp_path):
    small = made.grouped(made.synthetic(100, 40, 0.3), 5, rank=4)
    result = judged(made.case(small, tmp_path / "small"))
    assert result.passed
    assert (result.n, result.observed) == (0, None)
    assert not result.applicable
    assert "of 100 people whose groups are judged 5 could be left out" in result.detail


def test_large_data_without_absent_people_are_refused(tmp_path):
    large = names_removed(made.synthetic(520, 30, 0.3))
    opened = made.case(large, tmp_path / "large")
    made.write_shadow(large, opened.private / "utility" / "shadow-release", np.arange(520))
    result = judged(opened)
    assert not result.passed
    assert "made without 0 people" in result.detail


def test_the_same_figures_again(case):
    opened = case("simple")
    one, other = shadow_draws(opened), [replace(shadow_draws(opened)[0], shadow=open_shadow(opened))]
    assert guess(one, Model(8)) == guess(other, Model(8))


def test_further_draws_are_pooled(releases, tmp_path):
    """Two more shadows, each without other people: everybody counts once as a member, and once as absent at most."""
    release = releases["padded"]
    opened = made.case(release, tmp_path / "x")
    for number in (2, 3):
        present = np.flatnonzero(np.arange(300) % 20 != 7 + number)
        made.write_shadow(release, opened.private / "utility" / f"shadow-release-{number}", present)
    draws = shadow_draws(opened)
    users = [draw.shadow.truth.membership.users.to_pylist() for draw in draws]
    members = [users[n][row] for n, draw in enumerate(draws) for row in draw.members]
    absent = [users[n][row] for n, draw in enumerate(draws) for row in draw.absent]
    assert len(absent) == len(set(absent)) == 45
    assert len(members) == len(set(members)) > 270
    finding = CHECK.run(opened, CHECK.threshold)
    assert finding.outcomes[-1].to_json()["absent"] == 45
    assert "45 people whom 3 releases like this were made without" in finding.detail
    assert finding.n == finding.planned == 4 * (len(members) + 45)


def test_draws_of_different_scale_lose_nothing(ratings, tmp_path):
    """A signal is a rank within its shadow: pooled, the leaky model is found as before."""
    leaky = made.grouped(ratings, 5, rank=12, reg=0.06)
    opened = made.case(leaky, tmp_path / "leaky")
    one = guess(shadow_draws(opened), Model(0, "all"))
    present = np.flatnonzero(np.arange(300) % 20 != 9)
    other = leaky.but(shadow=lambda: made.grouped(ratings[present], 5, rank=12, reg=0.06))
    made.write_shadow(other, opened.private / "utility" / "shadow-release-2", present)
    pooled = guess(shadow_draws(replace(opened)), Model(0, "all"))
    assert pooled.absent == 2 * one.absent
    assert pooled.auc > 0.75


def test_a_damaged_further_draw_refuses(releases, tmp_path):
    opened = made.case(releases["padded"], tmp_path / "x")
    place = opened.private / "utility" / "shadow-release-2"
    made.write_shadow(releases["padded"], place, np.flatnonzero(np.arange(300) % 20 != 9))
    (place / "groups.parquet").unlink()
    result = judged(opened)
    assert not result.passed
    assert "shadow release cannot be used" in result.detail


def test_the_same_people_cannot_be_left_out_twice(releases, tmp_path):
    """A copied draw would narrow the interval without showing anything more."""
    opened = made.case(releases["padded"], tmp_path / "x")
    first = opened.private / "utility" / "shadow-release"
    shutil.copytree(first, first.with_name("shadow-release-2"))
    result = judged(opened)
    assert not result.passed
    assert "without the same people" in result.detail
