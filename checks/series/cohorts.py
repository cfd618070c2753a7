"""Count the newcomers of a release: enough to hide among, or none.

New groups are formed among newcomers only. With exactly k of them, k − 1 patient made-up accounts complete the group of
a lone newcomer, who is then the difference between the group's sum and what the attacker knows. With n newcomers, of
whom a are the attacker's, a random partition puts a given person among k − 1 of the attacker's with chance about
(a/n)^(k − 1); groups of similar people are worse, because the attacker can imitate a target. At 4k newcomers the
attacker must own three quarters of a month's newcomers for a chance of about a third at k = 5 (0.75⁴); at fewer than 50
people also the method itself has too little to learn from. Accounts that wait to be eligible, and must number three
times the real newcomers, show up in the owner's counts. Hence max(50, 4k), decided before any series was tried. The
owner may demand more ([gate] cohorts), never less.
"""

from checks.about import About
from checks.evidence.case import Case
from checks.history.history import FIRST, History
from checks.registry import check
from checks.result import Finding

FEWEST = 50
GROUPS = 4


@check(
    "cohorts",
    threshold=FEWEST,
    larger_is_safer=True,
    as_published=True,
    whole=True,
    about=About(
        title="Newcomers",
        summary="Count the newcomers of a release: enough, or none",
        knows="The attacker can fill a month's newcomers with made-up accounts.",
        tries="They complete the group of a real newcomer with their own accounts.",
        means="With enough newcomers at once, or none, the accounts an attacker needs are too many to go unnoticed.",
        measure="people who are new in this release",
        unit="people",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Return how many people are new in this release: none, or at least max(50, 4k) and the threshold."""
    history = History.of(case)
    if not history.related:
        return Finding(True, None, 0, FIRST, applicable=False)
    needed = max(threshold, FEWEST, GROUPS * history.own.k)
    new, everybody = int(history.newcomers.sum()), int(history.in_own.sum())
    # The exact number is public anyway: it is the sum of the sizes of the groups that were not there before.
    if not new:
        detail = "Nobody in this release is new."
    elif new >= needed:
        detail = f"{new:,} people are new in this release; at least {needed:g} are required."
    else:
        detail = (
            f"{new:,} people are new in this release, fewer than {needed:g}: a few made-up accounts could complete the "
            "group of a single newcomer. Let them wait for a later snapshot."
        )
    return Finding(new == 0 or new >= needed, new, everybody, detail, threshold=needed)
