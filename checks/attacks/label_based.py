"""Label-based attack (paper definition 3.2): items *and* ratings must fit.

Published labels are means or predictions, so besides labels that agree to the published digit the attacker
accepts labels that round to the known rating, and labels one rating further off.
"""

import numpy as np

from checks.candidates import Search, all_knowledge
from checks.case import Case
from checks.registry import check
from checks.result import Finding


@check("label-based", threshold=1.0)
def run(case: Case, threshold: float) -> Finding:
    """Largest probability of naming a target; at most 1/k for every one (theorem 6.1)."""
    allowed = min(threshold, 1 / case.release.k)
    search, half = Search(case), case.truth.half_level
    tolerances = {"to the digit": case.release.step / 2, "rounded": half, "± one": 3 * half}
    grid = all_knowledge(case)
    worst, trials, lines = 0.0, 0, []
    for words, tolerance in tolerances.items():
        for known in grid:
            found = search.find(known, tolerance)
            worst = max(worst, float(found.identification.max(initial=0)))
            trials += len(found.people)
            if known.name in ("8 random", "8 rare"):
                lines.append(f"{known.name}, {words}: {found.exposed.mean():.1%}")
    raw = search.singled_out_raw(grid[3], half)
    return Finding(
        worst <= allowed + 1e-9,
        worst,
        trials,
        f"best chance of naming a target {worst:.4f}, allowed 1/k = {allowed:.4f}. Targets "
        f"whose group alone fits: "
        f"{'; '.join(lines)}. The raw data single out {raw:.0%} of targets by 8 random items and ratings.",
        planned=len(case.targets("knowledge")) * len(grid) * len(tolerances),
        threshold=allowed,
    )


def exposed_targets(case: Case) -> tuple[int, int]:
    """Targets whose own profile is the only one that fits 8 random known ratings, and targets in all."""
    search = Search(case)
    known = all_knowledge(case)[3]
    alone = np.zeros(len(known.targets), dtype=bool)
    for tolerance in (case.truth.half_level, 3 * case.truth.half_level):
        alone |= search.find(known, tolerance).exposed
    return int(alone.sum()), len(alone)
