"""Compare every group's flags, and every member's, with what popularity and activity explain."""

from collections.abc import Sequence

import numpy as np

from checks.evidence.case import Case
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.member_links import find_rated_flags
from checks.recovery.person_baseline import Activity
from checks.stats import Tally


def count_links(
    case: Case, chance: CellBaseline, activity: Activity, keys: np.ndarray, sizes: Sequence[int]
) -> tuple[list[Tally], list[Tally]]:
    """Count per group, and per user, the flags of the own group that are right, among the first ones of each size;
    `keys` (groups × flags, best first) are −1 where a group has fewer."""
    there = keys >= 0
    luck = np.zeros(keys.shape)
    luck[there] = chance.of(keys[there])
    right, members, rated = find_rated_flags(case, keys)
    own = case.truth.row_of_user[members]
    popularity = np.where(there, activity.popularity[keys % case.release.n_items], 0.0)
    expected = -np.expm1(-activity.person[members][:, None] * popularity[own])
    groups, everybody = [], []
    for size in sizes:
        first = np.s_[:, :size]
        trials = there[first].sum(axis=1)
        people = np.zeros((3, case.truth.users))
        people[:, members] = rated[first].sum(axis=1), trials[own], expected[first].sum(axis=1)
        groups.append(Tally(right[first].sum(axis=1), trials, luck[first].sum(axis=1)))
        everybody.append(Tally(*people))
    return groups, everybody
