"""Find people whose disguise is undone, whatever happens to all other people's.

Averages over people hide a few whose values are hardly disguised among many whose values are. So every record is
examined by itself: of what an attack claims about it ("rated, and with this rating"), how much is right beyond luck;
and of the ratings that no guess without the release predicts, how many does it recover? A person is exposed where it is
certainly more than half, the share from which raw data count as broken.

Chance must not expose a person, however many people and attempts are examined: the lower bound (`Tally` in
checks/stats.py) is simultaneous, 95 % over all of them together. It takes about sixteen claims, all of them right.
"""

from collections.abc import Sequence

import numpy as np

from checks.stats import EXPOSED_FROM, Tally, gains_low


def find_exposed(tallies: Sequence[Tally]) -> np.ndarray:
    """Mark the records that any of the attempts exposes."""
    return np.logical_or.reduce([low > EXPOSED_FROM for low in gains_low(tallies)])
