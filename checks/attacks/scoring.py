"""Run Scoring ([Frankowski2006], section 4.3): the product of sub-scores, rare items weighing more."""

from checks.about import About
from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World, scoring_rule
from checks.linkage.words import NAMING, ONE_IN_K, SOME_RATINGS


@attack(
    "scoring",
    models=USUAL,
    control=Model(16),
    about=About(
        title="Scoring",
        summary="Find the record with the most identifying known items",
        knows=SOME_RATINGS,
        tries=(
            "They score every record by the known items it has, more for an item that few people rated, and "
            "choose the best."
        ),
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def rule(world: World) -> Rule:
    """Score Σ log(sub-score / floor) over the known items a record has (equations 1 and 2)."""
    return scoring_rule(world)
