"""Compare every group with what was published before: unchanged to the byte, or new.

A difference between two publications of a group is a sum over the few people who caused it (docs/leaks-and-bars.md).
So a group is one of four things: carried over (the same members, size, item ids and ratings bytes), a group of people
who were never released, a pool of survivors by the transversal rule, or a re-issue, in which every member's ratings
changed a lot. Everything else is refused: a newcomer in an old group, survivors who return by themselves, a refreshed
or refitted profile, a redrawn cell.
"""

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.history.history import FIRST, History
from checks.history.pools import Pools
from checks.history.reissues import reissued
from checks.registry import check
from checks.result import Finding


@check(
    "carried-over",
    threshold=0,
    as_published=True,
    whole=True,
    about=About(
        title="Unchanged groups",
        summary="Compare every group with its earlier publication",
        knows="The attacker holds every release about these people.",
        tries="They look for groups that changed between two releases.",
        means="A change belongs to the few people who caused it, so a published group never changes. None may.",
        measure="groups that are neither new nor unchanged",
        unit="groups",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count the groups that are neither new nor unchanged; none is allowed."""
    history = History.of(case)
    if not history.sharing:
        return Finding(True, None, 0, FIRST, applicable=False)
    groups = len(history.own.facts.numbers)
    old = ~history.of_newcomers & ~history.mixed
    same_members = np.zeros(groups, bool)
    before = history.sets.first[np.maximum(history.own_sets, 0)] < len(history.earlier)
    same_members[:] = old & before & (history.own_sets >= 0)
    changed = same_members & ~history.carried
    changed[np.flatnonzero(changed)] = ~reissued(case, history, np.flatnonzero(changed))
    pools = Pools.of(history.sets, history.own.k)
    pooled = old & ~same_members & (history.own_sets >= 0) & pools.new[np.maximum(history.own_sets, 0)]
    regrouped = old & ~same_members & ~pooled
    problems = [
        (int(history.mixed.sum()), "mix newcomers with people who were released before"),
        (int(regrouped.sum()), "have people of earlier groups in another composition"),
        (int(changed.sum()), "have the members of an earlier group and another profile"),
        (int((history.with_erased & ~history.mixed & ~regrouped).sum()), "have a member who was erased"),
    ]
    wrong = int((history.mixed | regrouped | changed | history.with_erased).sum())
    detail = (
        f"Of {groups:,} groups {int(history.carried.sum()):,} are carried over to the byte and "
        f"{int(history.of_newcomers.sum()):,} have new people only"
    )
    detail += f", {int(pooled.sum()):,} are pools of survivors." if pooled.any() else "."
    for count, words in problems:
        if count:
            detail += f" {count:,} {words}."
    return Finding(wrong <= threshold, wrong, groups, detail)
