"""Run FuzzyRating ([Frankowski2006], section 4.4): Scoring where the rating must be within one star."""

from checks.about import About
from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import NAMING, ONE_IN_K, SOME_RATINGS

MODELS = (
    *USUAL,
    Model(4, error="±1"),
    Model(16, error="±1"),
    Model(8, "rare", "±1"),
    Model(0, "forum", "±1"),
)


@attack(
    "fuzzy-rating",
    models=MODELS,
    control=Model(16),
    about=About(
        title="Fuzzy rating",
        summary="Find the record with ratings within one star",
        knows=SOME_RATINGS,
        tries=(
            "They score records as in Scoring, but an item counts only where the published rating is within one "
            "star of the known one."
        ),
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def rule(world: World) -> Rule:
    """Score as Scoring does, for records whose rating is at most a star from the known one (equation 3, δ = 1)."""
    return Rule(world.log_sub_scores(), "within", world.star, most_items=world.most_items())
