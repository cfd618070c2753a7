"""Structure-based attack (paper definition 3.1): which groups have all the items a person is known to have
rated?

Also run with everything the person rated, the strongest knowledge of this kind there is.
"""

import numpy as np

from checks.candidates import Found, Search, all_knowledge
from checks.case import Case
from checks.registry import check
from checks.result import Finding


@check("structure-based", threshold=1.0)
def run(case: Case, threshold: float) -> Finding:
    """Largest probability of naming a target; at most 1/k for every one (theorem 6.1)."""
    allowed = min(threshold, 1 / case.release.k)
    search = Search(case)
    grid = all_knowledge(case)
    found = {known.name: search.find(known, None) for known in grid}
    found["all"] = _everything(case, search)
    worst = max(float(result.identification.max(initial=0)) for result in found.values())
    trials = sum(len(result.people) for result in found.values())
    typical = ", ".join(f"{name}: {np.median(result.people):,.0f}" for name, result in found.items())
    raw = search.singled_out_raw(grid[3], None)
    return Finding(
        worst <= allowed + 1e-9,
        worst,
        trials,
        f"best chance of naming a target {worst:.4f}, allowed 1/k = {allowed:.4f}. Median "
        f"candidates by known items: "
        f"{typical}. The raw data single out {raw:.0%} of targets by 8 random items.",
        planned=len(case.targets("knowledge")) * (len(grid) + 1),
        threshold=allowed,
    )


def _everything(case: Case, search: Search) -> Found:
    """All of a target's items ⊆ a group's items, counted by a sparse product."""
    targets = case.targets("knowledge")
    known = case.truth.pattern[targets]
    wanted = np.diff(known.indptr)
    own_profile = search.profile[case.truth.row_of_user[targets]]
    people, profiles = (np.zeros(len(targets), dtype=np.int64) for _ in range(2))
    own = np.zeros(len(targets), dtype=bool)
    for block in case.release.blocks():
        rows = np.flatnonzero(search.first[block.rows_slice])
        if not len(rows):
            continue
        if block.items is None:
            fits = np.ones((len(targets), len(rows)), dtype=bool)
        else:
            fits = (known @ block.pattern()[rows].T).toarray() >= wanted[:, None]
        people += fits @ search.people[block.rows_slice][rows]
        profiles += fits.sum(axis=1)
        own |= (fits & (search.profile[block.rows_slice][rows][None, :] == own_profile[:, None])).any(axis=1)
    return Found(people, profiles, own)
