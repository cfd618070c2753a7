"""Test who is absent from the shadow run and how much is held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.shadow import split


def choose(rated, fewest_present=20, leave_users_out=True, draw_number=1):
    return split.choose_users(
        rated,
        lambda name: np.random.default_rng(len(name)),
        fewest_present=fewest_present,
        leave_users_out=leave_users_out,
        draw_number=draw_number,
    )


def test_draws_leave_out_different_people():
    rated = np.full(600, 10)
    absent = [set(choose(rated, draw_number=number)[1]) for number in (1, 2, 3, 4)]
    assert [len(some) for some in absent] == [30] * 4
    assert len(set.union(*absent)) == 120


@pytest.mark.parametrize(
    ("users", "draws"), [(499, 1), (500, 4), (943, 4), (1_400, 3), (2_000, 2), (4_000, 1), (60_000, 1)]
)
def test_few_absent_people_need_several_draws(users, draws):
    """5 % of 943 are 47: four draws. Below 500 nobody is absent, and a further draw would show nothing."""
    assert split.number_of_draws(users, 20) == draws


def test_no_user_is_absent_where_groups_need_all():
    rated = np.full(600, 10)
    assert len(choose(rated, fewest_present=20)[1]) == 30
    assert len(choose(rated, fewest_present=600)[1]) == 0


def test_a_study_leaves_no_user_out():
    present, absent, share = choose(np.full(600, 10), leave_users_out=False)
    assert (len(present), len(absent), share) == (600, 0, 0.1)


def test_absent_users_are_outside_the_sample(monkeypatch):
    monkeypatch.setattr(split, "MOST_USERS", 60)
    monkeypatch.setattr(split, "MOST_ABSENT", 25)
    present, absent, share = choose(np.full(100, 10))
    assert (len(present), len(absent), share) == (60, 25, split.HELD_OUT_SHARE)
    assert not set(present) & set(absent)


@given(st.integers(500, 900), st.integers(0, 10**6))
def test_one_tenth_is_held_out_for_any_counts(users, seed):
    rated = np.random.default_rng(seed).pareto(0.7, users).astype(int) + 1  # a few gave most ratings
    present, absent, share = choose(rated)
    assert sorted([*present, *absent]) == list(range(users))
    assert 0 < len(absent) <= users // 20
    assert rated[absent].sum() <= 0.075 * rated.sum()
    assert rated[absent].sum() + share * rated[present].sum() == pytest.approx(0.1 * rated.sum())
