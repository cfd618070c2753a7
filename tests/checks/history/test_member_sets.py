"""Test classes of persons and pools of survivors, by hand and against linear algebra."""

import itertools

import numpy as np
import pytest

from checks.history.member_sets import MemberSets
from checks.history.pools import Pools


def sets_of(*releases):
    """Sets of releases given as lists of groups of people."""
    people = 1 + max(person for release in releases for group in release for person in group)
    persons = [np.array([p for group in release for p in group]) for release in releases]
    groups = [np.array([n for n, group in enumerate(release) for _ in group]) for release in releases]
    return MemberSets.of(persons, groups, people)


def test_classes_by_hand():
    together, crossed = [[0, 1, 2], [3, 4, 5]], [[0, 1, 3], [2, 4, 5]]
    assert sets_of(together).alike.tolist() == [3] * 6
    assert sets_of(together, crossed).alike.tolist() == [2, 2, 1, 1, 2, 2]


def test_absent_people_form_classes_too():
    assert sets_of([[0, 1, 2], [3, 4, 5]], [[0, 1]]).alike.tolist() == [2, 2, 1, 3, 3, 3]


def test_equal_sets_are_one():
    sets = sets_of([[0, 1], [2, 3]], [[3, 2], [4, 5]])
    assert [own.tolist() for own in sets.of_group] == [[0, 1], [1, 2]]
    assert sets.first.tolist() == [0, 0, 1]
    assert sets.shared.nnz == 0


def pool(k, sizes, pooled):
    """Old groups of these sizes, and new ones that take one member of each."""
    starts = np.cumsum([0, *sizes])
    old = [list(range(a, b)) for a, b in itertools.pairwise(starts)]
    return old, [[group[1 + place] for group in old] for place in range(pooled)]


@pytest.mark.parametrize(
    ("k", "sizes", "pooled", "valid"),
    [
        (3, [3, 3, 3], 2, True),
        (3, [3, 3, 3], 1, True),
        (3, [4, 3, 5], 2, True),
        (3, [3, 3], 2, False),  # too few groups
        (3, [3, 2, 3], 1, False),  # a group below k
        (4, [4, 4, 4, 4], 3, True),
    ],
)
def test_pools_by_the_rule(k, sizes, pooled, valid):
    old, new = pool(k, sizes, pooled)
    found = Pools.of(sets_of(old, new), k)
    assert bool(found.new.any()) is valid
    assert found.people.all() == valid


def test_a_pool_with_two_of_one_group_is_none():
    old, _ = pool(3, [4, 4, 4], 0)
    assert not Pools.of(sets_of(old, [[1, 2, 5], [6, 9, 10]]), 3).new.any()


def test_a_pool_with_a_newcomer_is_none():
    old, new = pool(3, [3, 3, 3], 2)
    assert not Pools.of(sets_of(old, [[*new[0], 50], new[1]]), 3).new.any()


def test_only_one_group_with_people_left_over_is_none():
    """All of the second and third group are pooled: the sum of all old less all new groups is one person."""
    old = [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    new = [[1, 4, 7], [2, 5, 8], [3, 6, 9]]
    assert not Pools.of(sets_of(old, new), 3).new.any()


def fewest_isolated(groups, people, most):
    """Search all combinations with small whole coefficients for the fewest people that any leaves."""
    table = np.zeros((len(groups), people), int)
    for row, group in enumerate(groups):
        table[row, group] = 1
    weights = np.array(list(itertools.product(range(-most, most + 1), repeat=len(groups))))
    left = (weights @ table != 0).sum(axis=1)
    return int(left[left > 0].min())


@pytest.mark.parametrize(
    ("sizes", "pooled"), [([3, 3, 3], 2), ([3, 3, 3], 1), ([4, 3, 3], 2), ([5, 4, 3], 2)]
)
def test_no_combination_isolates_fewer_than_k(sizes, pooled):
    """The proof in checks/history/pools.py, tried with all coefficients from −2 to 2."""
    old, new = pool(3, sizes, pooled)
    assert Pools.of(sets_of(old, new), 3).new.any()
    assert fewest_isolated(old + new, sum(sizes), 2) >= 3
