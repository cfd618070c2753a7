"""Mark, for every group and for every member of it, which of the group's flagged cells hold a rating."""

import numpy as np
from numba import njit

from checks.evidence.case import Case


def find_rated_flags(case: Case, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which flags of each group any member rated (groups × flags); the members of all groups, group by group;
    and which of their group's flags each of these rated (members × flags).

    `flags` (groups × flags) are keys, group · items + item, with −1 where a group has fewer.
    """
    people, ratings = case.groups, case.truth.ratings
    items = np.where(flags >= 0, flags % case.release.n_items, -1)
    among = (people.starts, people.members, ratings.indptr, ratings.indices)
    any_member, own = _find(items, case.release.n_items, *among)
    return any_member, people.members, own


@njit(cache=True, nogil=True)
def _find(items, n_items, starts, members, indptr, indices):  # type: ignore[no-untyped-def]
    any_member = np.zeros(items.shape, np.bool_)
    out = np.zeros((starts[-1], items.shape[1]), np.bool_)
    flag_of = np.full(n_items, -1)  # the number of an item's flag in the group
    for group in range(len(items)):
        for number, item in enumerate(items[group]):
            if item >= 0:
                flag_of[item] = number
        for place in range(starts[group], starts[group + 1]):
            for rating in range(indptr[members[place]], indptr[members[place] + 1]):
                number = flag_of[indices[rating]]
                if number >= 0:
                    out[place, number] = any_member[group, number] = True
        for item in items[group]:
            if item >= 0:
                flag_of[item] = -1
    return any_member, out
