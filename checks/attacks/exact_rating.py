"""Run ExactRating ([Frankowski2006], section 4.4): Scoring where the rating must be the known one."""

from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World


@attack("exact-rating", models=USUAL, control=Model(8))
def rule(world: World) -> Rule:
    """Score as Scoring does, for records whose rating rounds to the known one (equation 3, δ = 0)."""
    return Rule(world.log_sub_scores(), "within", world.half_level, most_items=world.most_items())
