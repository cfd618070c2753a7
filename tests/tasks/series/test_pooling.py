"""Test which survivors are pooled: one from each of k withdrawn groups, so that nobody can be solved for."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.series.pooling import outlook, plan_pools, waiting_survivors
from tasks.series.rows import Group


class Survivors:
    """Stand for a ledger: withdrawn groups with survivors, by group id."""

    def __init__(self, survivors: dict[int, int], pooled: frozenset[int] = frozenset()) -> None:
        self._survivors, self._pooled = survivors, pooled

    def groups(self, before=None, state="live"):
        """Return the withdrawn groups."""
        return [
            Group(one, 1, one, count + 1, "", "withdrawn", None, 7 if one in self._pooled else None)
            for one, count in self._survivors.items()
        ]

    def people(self, before=None):
        """Return all survivors."""
        rows = [
            (token(one, n), one, "survivor") for one, count in self._survivors.items() for n in range(count)
        ]
        tokens, groups, states = zip(*rows, strict=True) if rows else ((), (), ())
        return list(tokens), np.array(groups, np.int64), list(states)


def token(group: int, person: int) -> bytes:
    return group.to_bytes(8, "big") + person.to_bytes(8, "big")


def group_of(one: bytes) -> int:
    return int.from_bytes(one[:8], "big")


def plan(ledger, k, present=None, seed=0):
    everybody = set(ledger.people()[0]) if present is None else present
    return plan_pools(ledger, everybody, k, np.random.default_rng(seed))


@given(
    survivors=st.dictionaries(st.integers(1, 99), st.integers(0, 9), max_size=20),
    absent=st.sets(st.tuples(st.integers(1, 99), st.integers(0, 9)), max_size=20),
    k=st.integers(2, 5),
    seed=st.integers(0, 3),
)
def test_every_new_group_takes_exactly_one_survivor_of_each_of_k_groups(survivors, absent, k, seed):
    ledger = Survivors(survivors)
    present = set(ledger.people()[0]) - {token(*one) for one in absent}
    left = {one: len(some) for one, some in waiting_survivors(ledger, present).items()}
    pools = plan(ledger, k, present, seed)
    for pool in pools:
        assert len(pool.groups) == k
        assert len(pool.members) == min(left[one] for one in pool.groups) >= k - 1
        for members in pool.members:
            assert [group_of(one) for one in members] == list(pool.groups)
    used = [one for pool in pools for one in pool.groups]
    pooled = [one for pool in pools for members in pool.members for one in members]
    assert len(set(used)) == len(used)
    assert len(set(pooled)) == len(pooled)
    assert set(pooled) <= present
    assert len(pools) == sum(count >= k - 1 for count in left.values()) // k
    assert [pool.number for pool in pools] == list(range(1, len(pools) + 1))


def test_the_same_key_gives_the_same_pools():
    ledger = Survivors(dict.fromkeys(range(9), 4))
    assert plan(ledger, 3) == plan(ledger, 3)
    assert plan(ledger, 3) != plan(ledger, 3, seed=1)


def test_groups_that_were_pooled_are_not_pooled_again():
    ledger = Survivors({1: 2, 2: 2, 3: 2, 4: 2}, pooled=frozenset({1}))
    [pool] = plan(ledger, 3)
    assert pool.groups == (2, 3, 4)
    assert pool.number == 8  # 7 is taken


def test_too_few_groups_or_survivors_wait():
    assert plan(Survivors({1: 2, 2: 2}), 3) == []
    assert plan(Survivors({1: 2, 2: 2, 3: 1}), 3) == []
    assert plan(Survivors({}), 3) == []


def test_the_wait_is_counted_in_groups():
    some = {1: [b"a", b"b"], 2: [b"c"]}
    assert outlook(some, 4, 3).__dict__ == {"groups": 1, "further_groups": 2, "survivors": 2, "never": 5}
    assert outlook({}, 0, 3).further_groups == 3


def smallest_combination(groups: list[list[bytes]], largest: int) -> int:
    """Return the fewest people whom a combination of group sums, with small whole coefficients, is about."""
    persons = sorted({one for group in groups for one in group})
    counts = np.array([[one in group for one in persons] for group in groups], np.int64)
    grid = np.array(list(itertools.product(range(-largest, largest + 1), repeat=len(groups))))
    left = ((grid @ counts) != 0).sum(axis=1)
    return int(left[left > 0].min())


def old_groups(sizes: list[int]) -> list[list[bytes]]:
    """Return groups as they were published; person 99 of each is erased."""
    return [[token(one, n) for n in [*range(size - 1), 99]] for one, size in enumerate(sizes, 1)]


def test_no_combination_of_old_and_new_sums_is_about_fewer_than_k_people():
    for sizes, largest in (([3, 3, 3], 3), ([3, 4, 5], 3), ([5, 5, 5], 1)):
        ledger = Survivors({one: size - 1 for one, size in enumerate(sizes, 1)})
        [pool] = plan(ledger, 3)
        assert smallest_combination([*old_groups(sizes), *pool.members], largest) >= 3


def test_survivors_who_return_together_give_the_erased_person_away():
    old = old_groups([3, 3, 3])
    together = [[*old[0][:2], old[1][0]], [old[1][1], *old[2][:2]]]  # groups of three, not transversal
    assert smallest_combination([*old, *together], 2) < 3
    assert smallest_combination([old[0], old[0][:2]], 1) == 1


def test_two_groups_of_a_pool_are_too_few():
    """Transversals of fewer than k groups leave as many erased people as there are groups."""
    old = old_groups([3, 3])
    pairs = [[a, b] for a, b in zip(old[0][:2], old[1][:2], strict=True)]
    assert smallest_combination([*old, *pairs], 1) == 2
