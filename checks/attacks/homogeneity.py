"""Homogeneity attack (paper definition 5.1): the group is found; what does its one profile give away?

Definition 5.1 calls a profile identified when all candidates are identical. We assume the worst, that
everybody's group is found, and ask how much of the profile is then true of a member: rated by them, with
that rating.
"""

import numpy as np

from checks.attacks.label_based import exposed_targets
from checks.case import Case
from checks.registry import check
from checks.result import Finding
from checks.stats import wilson


@check("homogeneity", threshold=0.5)
def run(case: Case, threshold: float) -> Finding:
    """Share of the profile's cells that are true of its members, in the worst group (upper bound)."""
    cells = np.concatenate([np.diff(block.indptr) for block in case.release.blocks()])
    trials = cells * case.members
    true_cells, personal = _true_cells(case, cells)
    bounds = np.array([wilson(t, n) for t, n in zip(true_cells, trials, strict=True)])  # one per group
    worst = int(np.argmax(bounds[:, 1]))
    share = float(true_cells[worst] / trials[worst]) if trials[worst] else 1.0
    found, targets = exposed_targets(case)
    return Finding(
        float(bounds[worst, 1]) <= threshold,
        share,
        int(trials[worst]),
        f"in the worst of {len(cells):,} groups {share:.1%} of the profile is true of a member (upper bound "
        f"{bounds[worst, 1]:.1%}), on average {true_cells.sum() / max(1, trials.sum()):.1%}, "
        f"for the worst single "
        f"member {personal:.1%}. Eight known ratings leave one profile for {found:,} of {targets:,} targets.",
        ci_low=float(bounds[worst, 0]),
        ci_high=float(bounds[worst, 1]),
    )


def _true_cells(case: Case, cells: np.ndarray) -> tuple[np.ndarray, float]:
    """Per group: (member, cell) pairs where the label rounds to the member's rating; and the worst
    member's share."""
    near = np.abs(case.published[case.cell_of_rating] - case.truth.ratings.data[case.listed_ratings])
    hit = near <= case.truth.half_level + 1e-4
    users = case.rating_rows[case.listed_ratings]
    per_user = np.bincount(users, weights=hit, minlength=case.truth.users)
    rows = case.truth.row_of_user
    listed = np.flatnonzero(rows >= 0)
    per_group = np.bincount(rows[listed], weights=per_user[listed], minlength=case.release.n_groups)
    personal = per_user[listed] / np.maximum(cells[rows[listed]], 1)
    return per_group, float(personal.max(initial=0))
