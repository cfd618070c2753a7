"""Label-based attack (paper definition 3.2): items *and* ratings must fit.

Published labels are means or predictions, so besides labels that agree to the published digit the attacker
accepts labels that round to the known rating, and labels one rating further off.
"""

from functools import partial

import numpy as np

from checks.case import Case
from checks.linkage import every_target
from checks.linkage.attack import CONTROL_TARGETS, Trial, trial
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule, World
from checks.registry import check
from checks.result import Finding

MODELS = tuple(Model(size, choice) for choice in ("random", "rare") for size in (1, 2, 4, 8))
EIGHT = Model(8)


@check("label-based", threshold=1.0)
def run(case: Case, threshold: float) -> Finding:
    """Largest probability of naming a target; at most 1/k for every one (theorem 6.1)."""
    half = case.truth.half_level
    tolerances = {"to the digit": case.release.step / 2, "rounded": half, "± one": 3 * half}
    trials, lines = [], []
    for words, tolerance in tolerances.items():
        for model in MODELS:
            done = trial(case, partial(rule, tolerance=tolerance), model)
            trials.append(done)
            if model.size == EIGHT.size:
                lines.append(f"{model.name}, {words}: {exposed(done).mean():.1%}")
    raw = trial(case.raw, partial(rule, tolerance=half), EIGHT, most=CONTROL_TARGETS)
    said = (
        f"Targets whose record alone fits: {'; '.join(lines)}. In the raw data {EIGHT.name} single out "
        f"{exposed(raw).mean():.0%}."
    )
    planned = len(case.targets("knowledge")) * len(MODELS) * len(tolerances)
    return every_target.judge(case, threshold, trials, said, planned=planned)


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
