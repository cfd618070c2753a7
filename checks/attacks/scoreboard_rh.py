"""Run Scoreboard-RH ([Narayanan2008], section 4): the attack that broke the Netflix data.

Nearer ratings and days count more, rare items more than popular ones. The authors claim a match only where the best
record stands out by 1.5 standard deviations (`claimed`, `claimed_right`), or answer with a distribution over all
records (`own_probability`, `entropy_bits`). In a homogenized release the members of a group tie, so the claim is never
made about a person: what gates is the chance of naming the target by the best record.
"""

from itertools import product

import numpy as np

from checks.about import About
from checks.linkage.attack import attack
from checks.linkage.knowledge import SIZES, Choice, Error, Model
from checks.linkage.rules import Rule, World
from checks.linkage.words import NAMING, ONE_IN_K, SOME_RATINGS

RATING_WIDTH = 1.5  # in stars
DAY_WIDTH = 30.0
CHOICES: tuple[Choice, ...] = ("random", "rare")
ERRORS: tuple[Error, ...] = ("exact", "±1", "some wrong")
GRID = tuple(Model(*known) for known in product(SIZES, CHOICES, ERRORS))
OTHERS = (Model(8, "popular"), Model(0, "forum"))
DATED = (Model(4, days=True), Model(8, days=True), Model(8, error="±1", days=True))


@attack(
    "scoreboard-rh",
    models=GRID + OTHERS + DATED,
    control=Model(8),
    entropic=True,
    about=About(
        title="Scoreboard-RH",
        summary="Find the record with the nearest ratings and days",
        knows=f"{SOME_RATINGS} Where the data are dated, also the days.",
        tries=(
            "They compare ratings and days with every record, rare items weighing more, and choose the nearest. "
            "It is the attack that identified people in the Netflix data."
        ),
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def rule(world: World) -> Rule:
    """Score Σ (e^(−|Δrating|/1.5) + e^(−|Δdays|/30)) / log(raters) over the known items a record has."""
    weight = 1 / np.log(np.maximum(world.raters, 2))
    return Rule(weight, "decay", RATING_WIDTH * world.star, DAY_WIDTH)
