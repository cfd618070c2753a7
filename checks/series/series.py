"""Intersect a release with all earlier ones about the same people (docs/leaks-and-bars.md): k does not compose.

An attacker who holds several releases intersects the groups of a person, and adds and subtracts published sums. Two
persons are alike when in every release, of whatever name and also withdrawn, they are in the same group or both absent.
Everybody must be among k persons who are alike; survivors of erasures may instead be in a pool that follows the
transversal rule (checks/history/pools.py), which isolates nobody either. What the manifest says about its series or its
population is the candidate's own claim and is not read.
"""

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.history.history import FIRST, NO_STORE, History
from checks.history.pools import Pools
from checks.registry import check
from checks.result import Finding


@check(
    "series",
    threshold=2,
    larger_is_safer=True,
    as_published=True,
    whole=True,
    about=About(
        title="All releases together",
        summary="Intersect a person's groups over all releases",
        knows="The attacker holds every release about these people, withdrawn ones included.",
        tries="They intersect the groups of a person over all of them.",
        means=(
            "Everybody stays among at least k people who are alike in all releases, so that waiting for the next "
            "release gains nothing."
        ),
        measure="fewest people who are alike in all releases",
        unit="people",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Return the fewest persons who are alike in all releases together; at least the manifest's k, the lowest k these
    people were promised so far, and the threshold."""
    history = History.of(case)
    if not history.in_store:
        return Finding(False, 0, 0, NO_STORE)
    if not history.sharing:
        detail = f"{FIRST} Releases in other stores are not examined."
        return Finding(True, None, 0, detail, applicable=False)
    needed = max(threshold, history.own.k, min(history.earlier[at].k for at in history.sharing))
    about = history.in_own.copy()
    for at in history.sharing:
        about[history.persons[at]] = True
    pools = Pools.of(history.sets, int(needed))
    alike = history.sets.alike
    judged = about & ~pools.people
    fewest = int(alike[judged].min()) if judged.any() else int(needed)
    short = about & ~pools.people & (alike < needed)
    share = int(np.ceil(100 * short.sum() / about.sum()))
    releases = _counted(len(history.sharing))
    if short.any():
        single = bool((history.own.facts.sizes == 1).all())
        how = (
            "records of single people can be compared, and noise averaged away"
            if single
            else ("groups can be intersected, and published sums subtracted")
        )
        detail = (
            f"Together with {releases} about the same people, up to {share} % of the people are among fewer than "
            f"{needed:g} who are alike in all of them: {how}. Carry groups over unchanged."
        )
    else:
        detail = (
            f"Together with {releases} about the same people, everybody is among at least {fewest:,} who share their "
            "group, or are absent, in each."
        )
    if pools.people[about].any():
        detail += " Survivors of erasures are pooled by transversals, which isolate nobody."
    return Finding(not short.any(), fewest, int(about.sum()), detail, threshold=needed)


def _counted(releases: int) -> str:
    return f"{releases:,} earlier release{'s' * (releases > 1)}"
