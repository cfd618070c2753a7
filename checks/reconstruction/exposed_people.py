"""Is anybody's disguise undone, whatever happens to everybody else's?

Averages over people hide a few whose values are hardly disguised among many whose are. So every record is looked at by
itself: of what an attack claims of it ("rated, and with this rating"), how much is right beyond luck; and of the
ratings that no guess without the release tells, how many does it tell? Somebody is exposed where it is more than half
for sure, the share from which raw data count as broken.

Chance must not expose anybody, however many people and attempts are looked at: the lower bound (Clopper and Pearson) is
simultaneous, 95 % over all of them together (Bonferroni), as in own-ratings. It takes about sixteen claims, all right.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from checks.linkage.attack import BROKEN

CHANCE = 0.05  # of exposing anybody at all by luck


@dataclass(frozen=True)
class Tally:
    """Per record: how often an attempt was right, of how many trials, and how many would be right by luck."""

    hits: np.ndarray
    trials: np.ndarray
    luck: np.ndarray

    def gain_low(self, tests: int) -> np.ndarray:
        """Lower bound of the gain over luck, one of so many tests."""
        low = np.where(
            self.hits > 0, beta.ppf(CHANCE / max(1, tests), self.hits, self.trials - self.hits + 1), 0.0
        )
        by_luck = np.minimum(self.luck / np.maximum(self.trials, 1), 1)
        return np.divide(low - by_luck, 1 - by_luck, out=np.zeros(len(low)), where=by_luck < 1)


def exposed(tallies: list[Tally]) -> np.ndarray:
    """Which records are, by any of the attempts."""
    tests = sum(int((tally.trials > 0).sum()) for tally in tallies)
    return np.logical_or.reduce([tally.gain_low(tests) > BROKEN for tally in tallies])
