"""Run ExactRating ([Frankowski2006], section 4.4): Scoring where the rating must be the known one."""

from checks.about import About
from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import NAMING, ONE_IN_K, SOME_RATINGS


@attack(
    "exact-rating",
    models=USUAL,
    control=Model(8),
    about=About(
        title="Exact rating",
        summary="Find the record with the same items and ratings",
        knows=SOME_RATINGS,
        tries=(
            "They score records as in Scoring, but an item counts only where the published rating rounds to the "
            "known one."
        ),
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def rule(world: World) -> Rule:
    """Score as Scoring does, for records whose rating rounds to the known one (equation 3, δ = 0)."""
    return Rule(world.log_sub_scores(), "within", world.half_level, most_items=world.most_items())
