"""Test that published counts of raters (support.parquet) make no link between a member and an item likely.

Everything is recomputed from the published files, the membership and the source (docs/proofs/support.md).

*Rule.* A count is rounded down to a multiple of min_contributors, and the highest count that an item shows stands for
every count from there on; where an item shows any count, all cells with min_contributors raters do, and no other.
k is at least 10 and min_contributors at least 3.
*Confidence.* In every cell, blank ones included, the posterior of a member's link is at most max(1/2, popularity +
0.10), for an attacker who knows the rule and the item's popularity and spread, for one who knows how often every count
of the item occurs, for one who also knows which groups are active, and for one who compares groups of one size. Of no
member is a link certain.
*Attack.* Links are guessed in the cells an attacker is most sure of (checks/recovery/support_attack.py). They must not
be right more often than max(1/2, what popularity × activity reaches + 0.10), at the lower bound; with exact counts in
all cells the same attack must do better than popularity × activity, which is the control.

Reported, not gated: the most active member of each cell; and how many targets' groups have as many copies of the
target as half of the group: whoever owns those accounts knows their counts and subtracts them.
"""

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.sybils import PlantedCopies, is_attackable, open_copies
from checks.recovery.support_attack import Guessed, guess_links
from checks.recovery.support_cells import (
    ALLOWED_CHANCE,
    ALLOWED_GAIN,
    Confidence,
    confidence_in_links,
    tally,
)
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk
from tasks.errors import Refused

LEAST_K, LEAST_ROUNDING = 10, 3


@check(
    "support-disclosure",
    threshold=0,
    controlled=True,
    about=About(
        title="Counts of raters",
        summary="Infer links from published counts of raters",
        knows="The attacker knows the rule, how popular every item is, and who is in which group.",
        tries="It guesses which members rated an item from the published and the blank counts.",
        means="One cell in which a link becomes likely would disclose what a person rated. None is allowed.",
        measure="cells and attacks that break the rule",
        unit="violations",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count the cells that break the rule, the items whose blank cells reveal links, and attacks that succeed; none is
    allowed."""
    release, support = case.release, case.release.support
    if support is None or release.n_groups == 0:
        why = "No counts of raters are published."
        return Finding(True, None, 0, why, control=True, outcomes=_nothing(), applicable=False)
    found = tally(case, support, max(1, release.min_contributors))
    sure = confidence_in_links(found)
    guesses = guess_links(case, support, found, sure)
    *attacks, control = guesses
    broken = [f"{count:,} {words}" for words, count in found.wrong.items() if count]
    small = int(release.k < LEAST_K) + int(release.min_contributors < LEAST_ROUNDING)
    if small:
        broken.append(
            f"k = {release.k} or min_contributors = {release.min_contributors} is below {LEAST_K} or {LEAST_ROUNDING}"
        )
    too_good = [one for one in attacks[:-1] if _beats_the_limit(one)]  # the last one is for information
    wrong = sum(found.wrong.values()) + small + sure.items + sure.certain + len(too_good)
    return Finding(
        wrong <= threshold,
        wrong,
        len(support.row),
        f"{len(support.row):,} published counts ({int(found.coded.sum()):,} items whose highest one stands for more): "
        f"{'; '.join(broken) or 'all follow the rule'}. {_in_words(sure)} "
        f"{sure.certain:,} members have a certain link. Links guessed right: {', '.join(map(str, attacks))}"
        f"{'; too often' if too_good else ''}. Control: {control}.{_insiders(case)}",
        control=control.risk.interval[0] > control.risk.baseline,
        outcomes=tuple(_outcome(one) for one in guesses),
    )


def _in_words(sure: Confidence) -> str:
    known = ", ".join(f"{value:.3f} for one {name}" for name, value in sure.by_attacker.items())
    return (
        f"The largest posterior of a link is {known}; {sure.items:,} items exceed what is allowed "
        f"(largest posterior less the limit: {sure.excess:+.3f})."
    )


def _beats_the_limit(guessed: Guessed) -> bool:
    low = guessed.risk.uncorrected.interval[0]
    return low > max(ALLOWED_CHANCE, guessed.risk.baseline + ALLOWED_GAIN)


def _outcome(guessed: Guessed) -> Outcome:
    return Outcome(guessed.name, guessed.risk)


def _nothing() -> tuple[Outcome, ...]:
    return (Outcome("not tried", Risk(0, 0)),)


def _insiders(case: Case) -> str:
    """Return how often k − 1 copies of a target are as many as half of the group, where that was tried."""
    try:
        copies = open_copies(case) if is_attackable(case) else None
    except Refused:  # the check `sybil` reports what is wrong with these files
        copies = None
    if copies is None:
        return ""
    share = half_owned(copies)
    return (
        f" Reported, not gated: with {case.release.k - 1} copies of a person, half or more of the group are copies for "
        f"{int(share.sum())} of {len(share)} targets; their owner subtracts the copies' ratings from the counts."
    )


def half_owned(copies: PlantedCopies) -> np.ndarray:
    """Return for which targets half or more of the members of their group are their copies."""
    group = copies.group[~copies.copy]
    together = copies.copy & (copies.group == group[copies.target])
    own = np.bincount(copies.target, weights=together, minlength=len(group))
    return 2 * own >= copies.release.sizes[group]
