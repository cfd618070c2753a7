"""How people defend themselves against being found by what they say (Frankowski et al., section 6).

Suppression: not mentioning one's rarest items any more. Misdirection: mentioning items one has not rated, taken
from a list that is the same for everybody.
"""

from dataclasses import replace

import numpy as np

from checks.linkage.knowledge import Knowledge
from checks.truth import Truth

BLOCK_CELLS = 16_000_000  # flags of targets × items held at once


def most_popular_first(raters: np.ndarray) -> np.ndarray:
    """All rated items in decreasing popularity: the paper's better list."""
    order = np.argsort(-raters, kind="stable")
    return order[raters[order] > 0]


def popular_from(raters: np.ndarray, threshold: int) -> np.ndarray:
    """Items with at least so many raters, in increasing popularity."""
    order = np.argsort(raters, kind="stable")
    return order[raters[order] >= max(1, threshold)]


def misdirections(truth: Truth, known: Knowledge, listed: np.ndarray, most: int) -> np.ndarray:
    """Targets × `most`: the first items of the list that each has neither rated nor mentioned; −1 where it ends."""
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
    """With the items of each target's row of `added` (−1: none) mentioned too; nobody knows a rating for them."""
    target, place = np.nonzero(added >= 0)
    owner = np.concatenate([known.owners(), target])
    order = np.argsort(owner, kind="stable")
    items = np.concatenate([known.items, added[target, place]])[order]
    ratings = np.concatenate([known.ratings, np.full(len(target), np.nan, np.float32)])[order]
    return replace(known, indptr=_starts(owner, len(known)), items=items, ratings=ratings, days=None)


def suppress_rarest(truth: Truth, known: Knowledge, share: float) -> Knowledge:
    """Without the rarest of each target's mentions of items they rated: at most this share of those (section 6.1)."""
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
