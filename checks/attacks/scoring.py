"""Run Scoring ([Frankowski2006], section 4.3): the product of sub-scores, rare items weighing more."""

from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World, scoring_rule


@attack("scoring", models=USUAL, control=Model(16))
def rule(world: World) -> Rule:
    """Score Σ log(sub-score / floor) over the known items a record has (equations 1 and 2)."""
    return scoring_rule(world)
