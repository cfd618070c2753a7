"""Count, for every member of a group, how many of the group's flagged cells that member really rated."""

import numpy as np
from numba import njit

from checks.evidence.case import Case


def count_rated_flags(case: Case, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the members of all groups, group by group, and how many of their group's flags each of them rated.

    `flags` (groups × flags) are keys, group · items + item, with −1 where a group has fewer.
    """
    people, ratings = case.groups, case.truth.ratings
    items = np.where(flags >= 0, flags % case.release.n_items, -1)
    count = _count(items, people.starts, people.members, ratings.indptr, ratings.indices)
    return people.members, count


@njit(cache=True, nogil=True)
def _count(items, starts, members, indptr, indices):  # type: ignore[no-untyped-def]
    out = np.zeros(starts[-1], np.int64)
    for group in range(len(items)):
        for place in range(starts[group], starts[group + 1]):
            member = members[place]
            own = indices[indptr[member] : indptr[member + 1]]
            for item in items[group]:
                if item >= 0:
                    at = np.searchsorted(own, item)
                    if at < len(own) and own[at] == item:
                        out[place] += 1
    return out
