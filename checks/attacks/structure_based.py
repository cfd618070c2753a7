"""Run the structure-based attack ([Chang2009], definition 3.1): which groups have all the items a person is known to
have rated?

It is also run with everything the person rated, the strongest knowledge of this kind.
"""

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.raw import raw_view
from checks.linkage.attack import run_control, trial
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import FOR_EVERYBODY, NAMING_ANYBODY
from checks.linkage.worst_target import assess_worst_target
from checks.registry import check
from checks.result import Finding

MODELS = (
    *(Model(size, choice) for choice in ("random", "rare") for size in (1, 2, 4, 8)),
    Model(0, "all"),
)
CONTROL = Model(16, "rare")


@check(
    "structure-based",
    threshold=1.0,
    controlled=True,
    about=About(
        title="Structure",
        summary="Find the groups that have all items a person rated",
        knows="The attacker knows some or all of the items that a person rated.",
        tries="They keep the groups that have all of these items and name a member at random.",
        means=FOR_EVERYBODY,
        measure=NAMING_ANYBODY,
        names_people=True,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest probability of naming a target; at most 1/k is allowed for every target (theorem 6.1)."""
    trials = {model.name: trial(case, rule, model) for model in MODELS}
    typical = ", ".join(f"{name}: {np.median(t.ranks.people):,.0f}" for name, t in trials.items())
    applicable = not case.release.complete  # otherwise every record fits every target
    reason = "" if applicable else "Every record holds every item, so every record fits. "
    return assess_worst_target(
        case,
        threshold,
        trials,
        f"{reason}Median people who fit, by what is known: {typical}.",
        planned=len(case.targets("knowledge")) * len(MODELS),
        control=run_control(raw_view(case), rule, CONTROL),
        applicable=applicable,
    )


def rule(world: World) -> Rule:
    """Require every known item."""
    return Rule(np.ones(len(world.raters)), all_needed=True)
