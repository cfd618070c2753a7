"""Label-based attack (paper definition 3.2): items *and* ratings must fit.

Published labels are means or predictions, so besides labels that agree to the published digit the attacker
accepts labels that round to the known rating, and labels one rating further off.
"""

from functools import partial

import numpy as np

from checks.case import Case
from checks.linkage import every_target
from checks.linkage.attack import Trial, control_of, trial
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule, World
from checks.registry import check
from checks.result import Finding

MODELS = tuple(Model(size, choice) for choice in ("random", "rare") for size in (1, 2, 4, 8))
EIGHT = Model(8)


@check("label-based", threshold=1.0, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Largest probability of naming a target; at most 1/k for every one (theorem 6.1)."""
    half = case.truth.half_level
    tolerances = {"to the digit": case.release.step / 2, "rounded": half, "± one": 3 * half}
    trials = {
        f"{model.name}, {words}": trial(case, partial(rule, tolerance=tolerance), model)
        for words, tolerance in tolerances.items()
        for model in MODELS
    }
    alone = "; ".join(
        f"{name}: {exposed(t).mean():.1%}" for name, t in trials.items() if t.model.size == EIGHT.size
    )
    return every_target.judge(
        case,
        threshold,
        trials,
        f"Targets whose record alone fits: {alone}.",
        planned=len(case.targets("knowledge")) * len(MODELS) * len(tolerances),
        control=control_of(case.raw, partial(rule, tolerance=half), EIGHT),
    )


def rule(world: World, *, tolerance: float) -> Rule:
    """Every known item must be there with a rating near enough."""
    return Rule(np.ones(len(world.raters)), "within", tolerance, all_needed=True)


def exposed(done: Trial) -> np.ndarray:
    """Targets whose own record is the only one that fits."""
    return (done.ranks.listed > 0) & (done.ranks.candidates == 1)


def exposed_targets(case: Case) -> tuple[int, int]:
    """Targets whose own record is the only one that fits 8 random known ratings, and targets in all."""
    alone = np.zeros(len(case.targets("knowledge")), dtype=bool)
    for tolerance in (case.truth.half_level, 3 * case.truth.half_level):
        alone |= exposed(trial(case, partial(rule, tolerance=tolerance), EIGHT))
    return int(alone.sum()), len(alone)
