"""Scoring (Frankowski et al., section 4.3): the product of sub-scores, rare items weighing more."""

from checks.linkage.attack import attack
from checks.linkage.knowledge import Model
from checks.linkage.rules import Rule, World

MODELS = (Model(4), Model(8), Model(16), Model(8, "rare"), Model(8, "popular"), Model(0, "forum"))


@attack("scoring", models=MODELS, control=Model(16))
def rule(world: World) -> Rule:
    """Σ log(sub-score / floor) over the known items a record has (equations 1 and 2)."""
    return Rule(world.log_sub_scores(), most_items=world.most_items())
