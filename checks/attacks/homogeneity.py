"""Run the homogeneity attack ([Chang2009], definition 5.1): given the right group, how much does its one profile
reveal?

Definition 5.1 calls a profile identified when all candidates are identical. The check assumes the worst, that every
person's group is found, and measures how much of the profile is then true of a member: rated by them, with that rating.
Where the members of a group gave the same items the same ratings, all of it is.

Where groups fail, the detail says which k would be enough, estimated from the data (checks/linkage/larger_groups.py).

Heavy raters are reported separately: theirs is the largest part of their group's profile. Beside what is true of them
stands what would be true by chance: items they rate by their popularity and their own activity, with the item's mean.
"""

import numpy as np

from checks.about import About
from checks.attacks.label_based import exposed_targets
from checks.evidence.case import Case
from checks.linkage.larger_groups import MOST_GROUPS, least_size, sizes_to_try
from checks.recovery.person_baseline import Activity
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import clustered, runs, wilson


@check(
    "homogeneity",
    threshold=0.5,
    about=About(
        title="Homogeneity",
        summary="Read off the group's profile what is true of a member",
        knows="The attacker has found the right group of a person.",
        tries="They take the group's one profile for the person's own ratings.",
        means=(
            "At the limit a profile is as often right about a member as wrong; above it, finding the group would "
            "be as good as finding the person."
        ),
        measure="share of the worst group's profile that is true of a member",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the share of the profile's cells that are true of its members, in the worst group (upper bound); where
    records are single people's, in all of them."""
    cells = case.release.lengths
    trials = cells * case.members
    true_of = _true_cells(case)
    rows = case.truth.row_of_user
    listed = np.flatnonzero(rows >= 0)
    true_cells = np.bincount(rows[listed], weights=true_of[listed], minlength=case.release.n_groups)
    personal = float((true_of[listed] / np.maximum(cells[rows[listed]], 1)).max(initial=0))
    share, low, high, number = _deciding_share(case, true_cells, trials)
    remedy = "" if case.single or high <= threshold else _enough(case, true_cells, trials, threshold)
    which = "of all people's records" if case.single else f"in the worst of {len(cells):,} groups"
    found, targets = exposed_targets(case)
    all_people, heavy = _outcome(case, true_of, heavy=False), _outcome(case, true_of, heavy=True)
    return Finding(
        high <= threshold,
        share,
        number,
        f"{which} {share:.1%} of the profile is true of a member (upper bound {high:.1%}), on average "
        f"{true_cells.sum() / max(1, trials.sum()):.1%}, for the worst single "
        f"member {personal:.1%}. Of heavy raters {heavy.risk.rate:.1%} is true, by chance {heavy.risk.baseline:.1%} "
        f"would be. Eight known ratings leave one profile for {found:,} of {targets:,} targets.{remedy}",
        ci_low=low,
        ci_high=high,
        outcomes=(all_people, heavy),
    )


def _deciding_share(
    case: Case, true_cells: np.ndarray, trials: np.ndarray
) -> tuple[float, float, float, int]:
    """Return what decides: the share that is true in the worst group, its bounds, and the number of its cells.

    Single people are judged by the average, as by every attack (docs/threat-model.md, promise 1).
    """
    if case.single:
        risk = clustered(true_cells, trials, 0.0)
        return risk.rate, *risk.interval, int(trials.sum())
    bounds = _bounds(true_cells, trials)
    worst = int(np.argmax(bounds[:, 1]))
    share = float(true_cells[worst] / trials[worst]) if trials[worst] else 1.0
    return share, float(bounds[worst, 0]), float(bounds[worst, 1]), int(trials[worst])


def _bounds(true_cells: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Return the interval of each group's share."""
    return np.array([wilson(t, n) for t, n in zip(true_cells, trials, strict=True)])


def _enough(case: Case, true_cells: np.ndarray, trials: np.ndarray, threshold: float) -> str:
    """Say from which k on the worst groups would pass."""
    high = _bounds(true_cells, trials)[:, 1]
    failing = int((high > threshold).sum())
    counted = f" Failing groups: {failing:,} of {len(high):,}."
    if case.release.complete:
        return f"{counted} Every group shows every item: larger groups need not do better."
    sizes, rows = sizes_to_try(case.release.k, case.truth.users), case.truth.row_of_user
    worst = np.argsort(-high, kind="stable")[:MOST_GROUPS]
    found = least_size(case.truth, [np.flatnonzero(rows == group) for group in worst], sizes, threshold)
    if found is not None:
        return f"{counted} Together with the people most like them, k = {found} is enough for this check (estimate)."
    most = f" up to {sizes[-1]}" if sizes else ""
    return f"{counted} Together with the people most like them, no k{most} is enough (estimate)."


def _true_cells(case: Case) -> np.ndarray:
    """Count per user the cells of the own group's profile whose label rounds to the user's own rating."""
    true_of = np.zeros(case.truth.users)
    for block in case.group_blocks():
        hit = np.abs(block.published[block.cells] - block.ratings) <= case.truth.half_level + 1e-4
        who, starts = runs(block.users)
        true_of[who] = np.add.reduceat(hit, starts[:-1], dtype=np.float64)
    return true_of


def _outcome(case: Case, true_of: np.ndarray, *, heavy: bool) -> Outcome:
    """Return what is true of some people's profiles, beside what would be by chance."""
    targets = case.targets("homogeneity", heavy=heavy)
    cells, by_chance, _ = Activity.fitted(case).expected(targets, _mean_hits(case))
    risk = clustered(true_of[targets], cells, float(by_chance.sum() / max(1, cells.sum())))
    more = {"cells": int(cells.sum()), "targets": len(targets)}
    return Outcome("the right group" + (", heavy raters" if heavy else ""), risk, more=more)


def _mean_hits(case: Case) -> np.ndarray:
    """Return per item the share of its raters whose rating its mean rounds to."""
    truth = case.truth
    count, total = truth.item_totals
    mean, hits = total / np.maximum(count, 1), np.zeros(len(count), np.int64)
    for part in truth.stretches():
        items = truth.ratings.indices[part]
        hit = np.abs(mean[items] - truth.ratings.data[part]) <= truth.half_level + 1e-4
        hits += np.bincount(items[hit], minlength=len(count))
    return hits / np.maximum(count, 1)
