"""Run set intersection ([Frankowski2006], section 4.1): which records have every item the target is known to have
rated?
"""

import numpy as np

from checks.about import About
from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import NAMING, ONE_IN_K, SOME_RATINGS


@attack(
    "set-intersection",
    models=USUAL,
    control=Model(16),
    about=About(
        title="Set intersection",
        summary="Find the records that have every known item",
        knows=SOME_RATINGS,
        tries="They keep the records that have every known item and choose among these at random.",
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def rule(world: World) -> Rule:
    """Accept only records that have every known item, all equally likely."""
    return Rule(np.ones(len(world.raters)), all_needed=True)
