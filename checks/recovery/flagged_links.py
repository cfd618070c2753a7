"""Flag the cells of a release that an attacker would claim to be really rated: the highest scores, over all groups and
within each group.

One pass over the blocks of a release serves every score. Only cells that are published, of rare items, and not nearly
certain anyway are candidates.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from checks.recovery.cell_baseline import CERTAIN, CellBaseline
from checks.recovery.highest_scores import HighestScores
from checks.recovery.low_rank_fit import Tables
from checks.recovery.spectral import Directions, Ladder, Score, centred

HEADS = (50, 100, 500, 2_000)
OF_EACH_GROUP = (20, 50)
AT_ONCE = 500_000  # cells scored together: they stay in the cache
RARE_SHARE = 0.05  # of the groups hold a real rating of the item


@dataclass(frozen=True)
class Flags:
    """Hold the keys (group · items + item) of one score's flags: overall, best first, and per group (groups × 50)."""

    score: Score
    overall: np.ndarray
    of_groups: np.ndarray  # −1 where a group has fewer candidates


def rare_items(chance: CellBaseline) -> np.ndarray:
    """Return the items that few groups really rated; nobody's rating at all cannot be found."""
    return np.flatnonzero((chance.share > 0) & (chance.share <= RARE_SHARE))


def flag_links(
    tables: Tables,
    directions: Directions,
    chance: CellBaseline,
    items: np.ndarray,
    rows: np.ndarray | None = None,
    *,
    per_group: bool = True,
) -> list[Flags]:
    """Return the flags of every score among these items; `rows` are the groups' numbers in `chance`, if others."""
    n_items = len(chance.popularity)
    scores = directions.scores()
    collected = {score: HighestScores(max(HEADS), _of_each(score, per_group=per_group)) for score in scores}
    ladders = [Ladder.of(directions, scores, items, whitened=whitened) for whitened in (True, False)]
    step = max(1, AT_ONCE // max(1, len(items)))
    for begin, block in tables():
        for first in range(0, len(block), step):
            table, start = block[first : first + step], begin + first
            groups = (
                np.arange(start, start + len(table)) if rows is None else rows[start : start + len(table)]
            )
            first_keys = groups.astype(np.int64) * n_items
            closed = _closed(
                table, items, chance.activity[groups], chance.popularity[items], -np.log1p(-CERTAIN)
            )
            around = centred(table, directions.mean)
            left, around = directions.coordinates(around).astype(np.float32), around[:, items]
            for ladder in ladders:
                for score, value, scale in ladder.climb(left, around):
                    either = not score.signed
                    collected[score].add(value, closed, first_keys, items, either_sign=either, scale=scale)
    return [Flags(score, collected[score].keys, collected[score].of_groups) for score in scores]


@njit(cache=True, nogil=True)
def _closed(table, items, activity, popularity, limit):  # type: ignore[no-untyped-def]
    """Mark the cells that are not published, or nearly certain anyway."""
    closed = np.empty((len(table), len(items)), np.bool_)
    for row in range(len(table)):
        for column in range(len(items)):
            certain = not activity[row] * popularity[column] <= limit
            closed[row, column] = np.isnan(table[row, items[column]]) or certain
    return closed


def _of_each(score: Score, *, per_group: bool) -> int:
    """Return how many flags of each group are wanted by this score."""
    return max(OF_EACH_GROUP) if per_group and score.whitened else 0
