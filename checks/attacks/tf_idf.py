"""Run TF-IDF ([Frankowski2006], section 4.2): the cosine of mentions and records, rare items weighing more."""

import numpy as np

from checks.about import About
from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import NAMING, ONE_IN_K, SOME_RATINGS


@attack(
    "tf-idf",
    models=USUAL,
    control=Model(16, "rare"),
    about=About(
        title="TF-IDF",
        summary="Find the nearest record, rare items weighing more",
        knows=SOME_RATINGS,
        tries=(
            "They choose the record that is nearest in the cosine measure of text search, where rare items weigh "
            "more."
        ),
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def rule(world: World) -> Rule:
    """Score Σ w² over the known items a record has, over the length of its vector; w = log2(people / raters)."""
    weight = np.log2(max(1, world.users) / np.maximum(world.raters, 1))
    return Rule(weight**2, cosine=True)
