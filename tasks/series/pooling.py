"""Plan pools: groups of survivors of erasures, who may be released again without disclosing who was erased.

Survivors of one withdrawn group must not return together: the difference of the two published sums would be the erased
person. The transversal rule: k withdrawn groups that are in no other pool, each with at least k − 1 survivors; every
new group takes exactly one survivor from each. Let p of the k old groups have non-zero coefficients in a combination of
published sums. p = k leaves the k erased people; 0 < p < k leaves p erased people and min(p, k − p) people in each of
the k − 1 or more new groups, together at least k; p = 0 leaves whole new groups. Nobody is pooled twice.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.series.rows import Group


class KnowsSurvivors(Protocol):
    """Describe the part of an open ledger that pools are planned from (tasks/series/ledger.py)."""

    def groups(self, before: int | None = None, state: str | None = "live") -> list[Group]:
        """Return the groups of a state."""

    def people(self, before: int | None = None) -> tuple[list[bytes], np.ndarray, list[str]]:
        """Return tokens, group ids and states of everybody who is not erased."""


@dataclass(frozen=True)
class Pool:
    """Hold a pool: k withdrawn groups, and new groups of one survivor from each (`members`, in the order of `groups`).

    `number` is what `NewGroup.pool` of every new group must be.
    """

    groups: tuple[int, ...]
    members: list[list[bytes]]
    number: int


def plan_pools(
    ledger: KnowsSurvivors, present_tokens: Set[bytes], k: int, rng: np.random.Generator
) -> list[Pool]:
    """Return all pools that can be made now; `present_tokens` are people in the source who are eligible.

    `rng` is a keyed stream: it decides who of a group's survivors is taken and who meets whom. As many survivors as the
    smallest of the k groups has are taken from each; so groups with equally many are put together, as far as possible.
    """
    left = waiting_survivors(ledger, present_tokens)
    usable = sorted(
        (group for group, survivors in left.items() if len(survivors) >= k - 1),
        key=lambda group: (-len(left[group]), group),
    )
    used = [group.pool for group in ledger.groups(state=None) if group.pool is not None]
    first = max(used, default=0) + 1
    return [
        pool_of(usable[start : start + k], left, first + number, rng)
        for number, start in enumerate(range(0, len(usable) - k + 1, k))
    ]


def pool_of(
    groups: Sequence[int], survivors: dict[int, list[bytes]], number: int, rng: np.random.Generator
) -> Pool:
    """Return the pool of these groups: new group j takes survivor j, in a random order, of each."""
    ordered = sorted(groups)
    drawn = [[sorted(survivors[one])[at] for at in rng.permutation(len(survivors[one]))] for one in ordered]
    return Pool(tuple(ordered), [list(row) for row in zip(*drawn, strict=False)], number)


def waiting_survivors(ledger: KnowsSurvivors, present: Set[bytes] | None = None) -> dict[int, list[bytes]]:
    """Return the survivors, of those present, by withdrawn group that is in no pool; a group may have none left.

    A withdrawn group that is itself a pool's is not listed: nobody is pooled twice.
    """
    found: dict[int, list[bytes]] = {
        group.id: [] for group in ledger.groups(state="withdrawn") if group.pool is None
    }
    for token, group, state in zip(*ledger.people(), strict=True):
        if state == "survivor" and int(group) in found and (present is None or token in present):
            found[int(group)].append(token)
    return found


@dataclass(frozen=True)
class Wait:
    """Hold how long survivors wait: withdrawn groups that can be pooled, and how many more a pool needs."""

    groups: int
    further_groups: int
    survivors: int  # in groups that can be pooled
    never: int  # in groups of which fewer than k − 1 are left, or that were pooled before


def outlook(survivors: dict[int, list[bytes]], never: int, k: int) -> Wait:
    """Return how long the survivors of these groups wait."""
    usable = [len(some) for some in survivors.values() if len(some) >= k - 1]
    short = sum(len(some) for some in survivors.values() if len(some) < k - 1)
    further = -len(usable) % k if usable else k
    return Wait(len(usable), further, sum(usable), short + never)
