"""Judge what averages hide: the first 50 and 100 flags of a release, and every group and person for themselves.

A hundred ratings published as they are among millions of predictions move no average, but they are the first that an
attacker finds. So the cells with the largest residuals are judged in heads of 50 and 100 flags too: can the ratings of
single contributors be read off them (checks/recovery/flagged_ratings.py)? Few flags have a wide interval, so these are
refused at the lower bound. (Whether such flags are *rated* is for link-recovery to judge, which knows what taste
explains: the few cells that stand out most of a good release are those its fans like best.) And nobody may be exposed,
no group and no person: more than half of the flags right beyond the baseline, at a lower bound that holds for all of
them together.
"""

from collections.abc import Sequence

import numpy as np

from checks.evidence.case import Case
from checks.recovery.cell_baseline import CERTAIN, CellBaseline
from checks.recovery.exposed_links import count_links
from checks.recovery.flagged_ratings import FlaggedRatings, HiddenFits
from checks.recovery.gain import Gain
from checks.recovery.outlying_cells import Collector, LargestOfGroups
from checks.recovery.person_baseline import Activity
from checks.stats import find_exposed

OF_EACH = (25, 50)  # flags of a group or a person; fewer than about twenty cannot be sure of anybody


class SmallHeads:
    """Collect the flags of one comparison of a release with fits; `of_everybody` are the numbers of the fits by which
    groups and people are examined: each further one makes the bound for all of them wider; `hidden` guesses ratings."""

    def __init__(
        self,
        case: Case,
        chance: CellBaseline,
        number_of_fits: int,
        of_everybody: Sequence[int],
        hidden: HiddenFits,
    ) -> None:
        self._case, self._chance = case, chance
        self._hides_links = chance.overall <= CERTAIN
        limit = -np.log1p(-CERTAIN) if self._hides_links else np.inf
        self._groups = LargestOfGroups(case, chance, of_everybody, max(OF_EACH), limit)
        self._ratings = FlaggedRatings(case, number_of_fits, of_everybody, OF_EACH, hidden)

    @property
    def collectors(self) -> list[Collector]:
        """Return what takes part in the comparison."""
        return [self._groups, self._ratings]

    def gains(self, names: Sequence[str]) -> list[Gain]:
        """Return the gains of all small heads, given the names of the fits."""
        return [gain for number, name in enumerate(names) for gain in self._ratings.gains(number, name)]

    def count_exposed(self) -> tuple[int, int]:
        """Count the groups, and the people, of whose flags or flagged ratings more than half beyond the baseline are
        right."""
        groups, people = self._ratings.tallies()
        if self._hides_links:
            activity = Activity.fitted(self._case)
            for keys in self._groups.keys.values():
                of_groups, of_people = count_links(self._case, self._chance, activity, keys, OF_EACH)
                groups += of_groups
                people += of_people
        return int(find_exposed(groups).sum()), int(find_exposed(people).sum())
