"""Flag the cells of a release that an attacker would claim to be really rated: the highest scores, over all groups and
within each group.

One pass over the blocks of a release serves every score. Only cells that are published, of rare items, and not nearly
certain anyway are candidates.
"""

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.highest_scores import HighestScores
from checks.recovery.low_rank_fit import Tables
from checks.recovery.spectral import Directions, Score, centred

HEADS = (50, 100, 500, 2_000)
OF_EACH_GROUP = (20, 50)
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
    collected = [HighestScores(max(HEADS), _of_each(score, per_group=per_group)) for score in scores]
    # Scores of either sign are those of one product.
    pairs = groupby(zip(scores, collected, strict=True), lambda each: replace(each[0], signed=True))
    products = [(score, directions.items(score)[items].T, list(pair)) for score, pair in pairs]
    for start, table in tables():
        groups = np.arange(start, start + len(table)) if rows is None else rows[start : start + len(table)]
        first_keys = groups.astype(np.int64) * n_items
        closed = np.isnan(table[:, items])
        closed |= ~chance.in_doubt_of(groups, items)
        around = centred(table, directions.mean)
        left, around = directions.coordinates(around).astype(np.float32), around[:, items]
        for score, right, pair in products:
            value = left[:, : score.rank] @ right
            if score.left_over:
                value -= around
            for each, highest in pair:
                highest.add(value, closed, first_keys, items, either_sign=not each.signed)
    return [
        Flags(score, highest.keys, highest.of_groups)
        for score, highest in zip(scores, collected, strict=True)
    ]


def _of_each(score: Score, *, per_group: bool) -> int:
    """Return how many flags of each group are wanted by this score."""
    return max(OF_EACH_GROUP) if per_group and score.whitened else 0
