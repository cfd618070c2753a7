"""Run FuzzyRating ([Frankowski2006], section 4.4): Scoring where the rating must be within one star."""

from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World

MODELS = (
    *USUAL,
    Model(4, error="±1"),
    Model(16, error="±1"),
    Model(8, "rare", "±1"),
    Model(0, "forum", "±1"),
)


@attack("fuzzy-rating", models=MODELS, control=Model(16))
def rule(world: World) -> Rule:
    """Score as Scoring does, for records whose rating is at most a star from the known one (equation 3, δ = 1)."""
    return Rule(world.log_sub_scores(), "within", world.star, most_items=world.most_items())
