"""Flag the cells of a release that an attacker would claim to be really rated: the highest scores, over all groups and
within each group.

One pass over the blocks of a release serves every score. Only cells that are published, of rare items, and not nearly
certain anyway are candidates.
"""

from dataclasses import dataclass

import numpy as np

from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.low_rank_fit import Tables
from checks.recovery.spectral import Directions, Score, centred

HEADS = (50, 100, 500, 2_000)
OF_EACH_GROUP = (20, 50)
RARE_SHARE = 0.05  # of the groups hold a real rating of the item
SAMPLED = 100  # times as many values as are wanted: from then on a sample of them is looked at first


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
    right = [directions.items(score)[items] for score in scores]
    kept: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(
        scores
    )
    best: list[list[np.ndarray]] = [[] for _ in scores]
    for start, table in tables():
        groups = np.arange(start, start + len(table)) if rows is None else rows[start : start + len(table)]
        closed = np.isnan(table[:, items])
        closed |= ~chance.in_doubt_of(groups, items)
        around = centred(table, directions.mean)
        left, around = directions.coordinates(around).astype(np.float32), around[:, items]
        for number, score in enumerate(scores):
            value = left[:, : score.rank] @ right[number].T
            if score.left_over:
                value -= around
            if not score.signed:
                np.abs(value, out=value)
            value[closed] = -np.inf
            kept[number] = _largest(kept[number], value, groups, items, n_items)
            if per_group and score.whitened:
                best[number].append(_largest_of_rows(value, groups, items, n_items))
    return [
        Flags(score, keys[np.argsort(-value, kind="stable")], np.concatenate(own) if own else _NOTHING)
        for score, (keys, value), own in zip(scores, kept, best, strict=True)
    ]


_NOTHING = np.empty((0, max(OF_EACH_GROUP)), np.int64)


def _largest(
    kept: tuple[np.ndarray, np.ndarray],
    value: np.ndarray,
    groups: np.ndarray,
    items: np.ndarray,
    n_items: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Merge a block's highest scores with those kept so far."""
    flat = value.ravel()
    place = _places_of_largest(flat, min(max(HEADS), len(flat)))
    place = place[np.isfinite(flat[place])]
    row, column = np.divmod(place, len(items))
    keys = np.concatenate([kept[0], groups[row].astype(np.int64) * n_items + items[column]])
    scores = np.concatenate([kept[1], flat[place]])
    order = np.lexsort((keys, -scores))[: max(HEADS)]
    return keys[order], scores[order]


def _places_of_largest(flat: np.ndarray, size: int) -> np.ndarray:
    """Return where the largest values are, in any order. Of many values, a sample shows which are far too small."""
    if len(flat) > SAMPLED * size:
        sample = flat[:: SAMPLED // 4]
        enough = np.partition(sample, len(sample) - 16 * size // SAMPLED)[len(sample) - 16 * size // SAMPLED]
        among = np.flatnonzero(flat > enough)
        if len(among) >= size:
            return among[np.argpartition(flat[among], len(among) - size)[len(among) - size :]]
    return np.argpartition(flat, len(flat) - size)[len(flat) - size :]


def _largest_of_rows(value: np.ndarray, groups: np.ndarray, items: np.ndarray, n_items: int) -> np.ndarray:
    """Return the keys of each group's highest scores, best first; −1 where there are fewer."""
    size = min(max(OF_EACH_GROUP), value.shape[1])
    column = np.argpartition(value, value.shape[1] - size, axis=1)[:, value.shape[1] - size :]
    own = np.take_along_axis(value, column, axis=1)
    order = np.argsort(-own, axis=1, kind="stable")
    column, own = np.take_along_axis(column, order, axis=1), np.take_along_axis(own, order, axis=1)
    keys = np.where(np.isfinite(own), groups[:, None].astype(np.int64) * n_items + items[column], -1)
    return np.pad(keys, ((0, 0), (0, max(OF_EACH_GROUP) - size)), constant_values=-1)
