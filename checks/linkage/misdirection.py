"""Simulate how people defend themselves against being identified by their mentions ([Frankowski2006], section 6).

Suppression: no longer mentioning one's rarest items. Misdirection: mentioning items one has not rated, taken from a
list that is the same for every person.
"""

from dataclasses import replace

import numpy as np

from checks.evidence.truth import Truth
from checks.linkage.knowledge import Knowledge

BLOCK_CELLS = 16_000_000  # flags of targets × items held at once


def most_popular_first(raters: np.ndarray) -> np.ndarray:
    """Return all rated items in decreasing popularity: the better list of the paper."""
    order = np.argsort(-raters, kind="stable")
    return order[raters[order] > 0]


def popular_from(raters: np.ndarray, threshold: int) -> np.ndarray:
    """Return the items with at least this many raters, in increasing popularity."""
    order = np.argsort(raters, kind="stable")
    return order[raters[order] >= max(1, threshold)]


def misdirections(truth: Truth, known: Knowledge, listed: np.ndarray, most: int) -> np.ndarray:
    """Choose for each target the first `most` items of the list that they neither rated nor mentioned (targets ×
    `most`); −1 where the list ends."""
    chosen = np.full((len(known), most), -1, dtype=np.int64)
    rows = max(1, BLOCK_CELLS // max(1, truth.ratings.shape[1]))
    for start in range(0, len(known), rows):
        part = known.part(start, start + rows)
        rated = truth.ratings[part.targets].tocoo()
        taken = np.zeros((len(part), truth.ratings.shape[1]), dtype=bool)
        taken[rated.row, rated.col] = True
        taken[part.owners(), part.items] = True
        free = ~taken[:, listed]
        nth = np.cumsum(free, axis=1, dtype=np.int32)
        target, place = np.nonzero(free & (nth <= most))
        chosen[start + target, nth[target, place] - 1] = listed[place]
    return chosen


def misdirect(known: Knowledge, added: np.ndarray) -> Knowledge:
    """Add the items of each target's row of `added` (−1: none) to their mentions, without ratings."""
    target, place = np.nonzero(added >= 0)
    owner = np.concatenate([known.owners(), target])
    order = np.argsort(owner, kind="stable")
    items = np.concatenate([known.items, added[target, place]])[order]
    ratings = np.concatenate([known.ratings, np.full(len(target), np.nan, np.float32)])[order]
    return replace(known, indptr=_starts(owner, len(known)), items=items, ratings=ratings, days=None)


def suppress_rarest(truth: Truth, known: Knowledge, share: float) -> Knowledge:
    """Remove the rarest of each target's mentions of items they rated: at most this share of them (section 6.1)."""
    owner = known.owners()
    rated = ~np.isnan(known.ratings)
    order = np.lexsort(
        (truth.raters[known.items], ~rated, owner)
    )  # per target: rated ones first, rarest first
    nth = np.arange(len(owner)) - known.indptr[owner]
    limit = np.floor(share * np.bincount(owner, weights=rated, minlength=len(known)) + 1e-9)
    kept = np.sort(order[nth >= limit[owner]])
    return replace(
        known,
        indptr=_starts(owner[kept], len(known)),
        items=known.items[kept],
        ratings=known.ratings[kept],
        days=None,
    )


def _starts(owner: np.ndarray, targets: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=targets))]).astype(np.int64)
