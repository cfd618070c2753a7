"""Run set intersection ([Frankowski2006], section 4.1): which records have every item the target is known to have
rated?
"""

import numpy as np

from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World


@attack("set-intersection", models=USUAL, control=Model(16))
def rule(world: World) -> Rule:
    """Accept only records that have every known item, all equally likely."""
    return Rule(np.ones(len(world.raters)), all_needed=True)
