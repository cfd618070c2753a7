"""Find people whose disguise is undone, whatever happens to all other people's.

Averages over people hide a few whose values are hardly disguised among many whose values are. So every record is
examined by itself: of what an attack claims about it ("rated, and with this rating"), how much is right beyond luck;
and of the ratings that no guess without the release predicts, how many does it recover? A person is exposed where it is
certainly more than half, the share from which raw data count as broken.

Chance must not expose a person, however many people and attempts are examined: the lower bound (Clopper and Pearson) is
simultaneous, 95 % over all of them together (Bonferroni), as in own-ratings. It takes about sixteen claims, all of them
right.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from checks.evidence.views.raw import MIN_CONTROL_SHARE

CHANCE = 0.05  # of exposing any person at all by luck


@dataclass(frozen=True)
class Tally:
    """Hold per record how often an attempt was right, out of how many trials, and how many would be right by luck."""

    hits: np.ndarray
    trials: np.ndarray
    luck: np.ndarray

    def gain_low(self, tests: int) -> np.ndarray:
        """Return the lower bound of the gain over luck, as one of this many tests."""
        low = np.where(
            self.hits > 0, beta.ppf(CHANCE / max(1, tests), self.hits, self.trials - self.hits + 1), 0.0
        )
        by_luck = np.minimum(self.luck / np.maximum(self.trials, 1), 1)
        return np.divide(low - by_luck, 1 - by_luck, out=np.zeros(len(low)), where=by_luck < 1)


def find_exposed(tallies: list[Tally]) -> np.ndarray:
    """Mark the records that any of the attempts exposes."""
    tests = sum(int((tally.trials > 0).sum()) for tally in tallies)
    return np.logical_or.reduce([tally.gain_low(tests) > MIN_CONTROL_SHARE for tally in tallies])
