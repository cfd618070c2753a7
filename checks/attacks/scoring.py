"""Scoring (Frankowski et al., section 4.3): the product of sub-scores, rare items weighing more."""

from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World


@attack("scoring", models=USUAL, control=Model(16))
def rule(world: World) -> Rule:
    """Σ log(sub-score / floor) over the known items a record has (equations 1 and 2)."""
    return Rule(world.log_sub_scores(), most_items=world.most_items())
