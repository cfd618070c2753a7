"""Run TF-IDF ([Frankowski2006], section 4.2): the cosine of mentions and records, rare items weighing more."""

import numpy as np

from checks.linkage.attack import attack
from checks.linkage.knowledge import USUAL, Model
from checks.linkage.rules import Rule, World


@attack("tf-idf", models=USUAL, control=Model(16, "rare"))
def rule(world: World) -> Rule:
    """Score Σ w² over the known items a record has, over the length of its vector; w = log2(people / raters)."""
    weight = np.log2(max(1, world.users) / np.maximum(world.raters, 1))
    return Rule(weight**2, cosine=True)
