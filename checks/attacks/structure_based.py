"""Structure-based attack (paper definition 3.1): which groups have all the items a person is known to have
rated?

Also run with everything the person rated, the strongest knowledge of this kind there is.
"""

import numpy as np

from checks.case import Case
from checks.linkage import every_target
from checks.linkage.attack import control_of, trial
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule, World
from checks.registry import check
from checks.result import Finding

MODELS = (
    *(Model(size, choice) for choice in ("random", "rare") for size in (1, 2, 4, 8)),
    Model(0, "all"),
)
CONTROL = Model(16, "rare")


@check("structure-based", threshold=1.0, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Largest probability of naming a target; at most 1/k for every one (theorem 6.1)."""
    trials = {model.name: trial(case, rule, model) for model in MODELS}
    typical = ", ".join(f"{name}: {np.median(t.ranks.people):,.0f}" for name, t in trials.items())
    return every_target.judge(
        case,
        threshold,
        trials,
        f"Median people who fit, by what is known: {typical}.",
        planned=len(case.targets("knowledge")) * len(MODELS),
        control=control_of(case.raw, rule, CONTROL),
    )


def rule(world: World) -> Rule:
    """Every known item must be there."""
    return Rule(np.ones(len(world.raters)), all_needed=True)
