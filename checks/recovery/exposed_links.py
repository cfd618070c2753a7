"""Compare every group's flags, and every member's, with what popularity and activity explain."""

import numpy as np

from checks.evidence.case import Case
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.member_links import count_rated_flags
from checks.recovery.person_baseline import Activity
from checks.recovery.real_cells import hold_real_ratings
from checks.stats import Tally


def count_links(
    case: Case, chance: CellBaseline, activity: Activity, keys: np.ndarray
) -> tuple[Tally, Tally]:
    """Count per group, and per user, the flags of the own group that are right; `keys` (groups × flags) are −1 where a
    group has fewer."""
    there = keys >= 0
    trials = there.sum(axis=1)
    right, luck = np.zeros(keys.shape, bool), np.zeros(keys.shape)
    right[there], luck[there] = hold_real_ratings(case, keys[there]), chance.of(keys[there])
    members, count = count_rated_flags(case, keys)
    own = case.truth.row_of_user[members]
    popularity = np.where(there, activity.popularity[keys % case.release.n_items], 0.0)
    expected = -np.expm1(-activity.person[members][:, None] * popularity[own]).sum(axis=1)
    people = np.zeros((3, case.truth.users))
    people[:, members] = count, trials[own], expected
    return Tally(right.sum(axis=1), trials, luck.sum(axis=1)), Tally(*people)
