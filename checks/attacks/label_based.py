"""Run the label-based attack ([Chang2009], definition 3.2): items *and* ratings must match.

Published labels are means or predictions, so besides labels that agree to the published digit the attacker accepts
labels that round to the known rating, and labels one rating further off.
"""

from functools import partial

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.raw import raw_view
from checks.linkage.attack import Trial, run_control, trial
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import FOR_EVERYBODY, NAMING_ANYBODY
from checks.linkage.worst_target import assess_worst_target
from checks.registry import check
from checks.result import Finding

MODELS = tuple(Model(size, choice) for choice in ("random", "rare") for size in (1, 2, 4, 8))
EIGHT = Model(8)


@check(
    "label-based",
    threshold=1.0,
    controlled=True,
    about=About(
        title="Labels",
        summary="Find the groups that have the known ratings, too",
        knows="The attacker knows eight of a person's items and ratings.",
        tries=(
            "They keep the groups that have these items with these ratings, to the digit, by rounding or one "
            "rating off, and name a member at random."
        ),
        means=FOR_EVERYBODY,
        measure=NAMING_ANYBODY,
        names_people=True,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest probability of naming a target; at most 1/k is allowed for every target (theorem 6.1)."""
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
    return assess_worst_target(
        case,
        threshold,
        trials,
        f"Targets whose record alone fits: {alone}.",
        planned=len(case.targets("knowledge")) * len(MODELS) * len(tolerances),
        control=run_control(raw_view(case), partial(rule, tolerance=half), EIGHT),
    )


def rule(world: World, *, tolerance: float) -> Rule:
    """Require every known item with a rating within the tolerance."""
    return Rule(np.ones(len(world.raters)), "within", tolerance, all_needed=True)


def exposed(done: Trial) -> np.ndarray:
    """Mark the targets whose own record is the only one that matches."""
    return (done.ranks.listed > 0) & (done.ranks.candidates == 1)


def exposed_targets(case: Case) -> tuple[int, int]:
    """Count the targets whose own record is the only one that matches 8 random known ratings, and all targets."""
    alone = np.zeros(len(case.targets("knowledge")), dtype=bool)
    for tolerance in (case.truth.half_level, 3 * case.truth.half_level):
        alone |= exposed(trial(case, partial(rule, tolerance=tolerance), EIGHT))
    return int(alone.sum()), len(alone)
