"""Collect what the raters of rare items think of them, from the source."""

from dataclasses import dataclass

import numpy as np

from checks.evidence.truth import Truth


@dataclass(frozen=True)
class Opinions:
    """Hold one opinion per entry, in the order of the items.

    `own` is the rating less the mean of that person's other ratings, `others` the mean opinion of the item's other
    raters (0 where `alone`: there are none), `activity` how many ratings the person gave.
    """

    item: np.ndarray
    own: np.ndarray
    others: np.ndarray
    alone: np.ndarray
    activity: np.ndarray

    def take(self, some: np.ndarray) -> "Opinions":
        """Return some of the opinions."""
        return Opinions(*(values[some] for values in vars(self).values()))

    def one_per_item(self, order: np.ndarray) -> "Opinions":
        """Return the opinion of each item that comes first in this order of the raters."""
        chosen = np.lexsort((order, self.item))
        first = np.append(True, np.diff(self.item[chosen]) > 0) if len(chosen) else np.zeros(0, bool)
        return self.take(chosen[first])


def join(parts: list[Opinions]) -> Opinions:
    """Return all these opinions in the order of the items."""
    arrays = zip(*(vars(part).values() for part in parts), strict=True)
    together = Opinions(*(np.concatenate(values) for values in arrays))
    return together.take(np.argsort(together.item, kind="stable"))


def opinions_of(truth: Truth, items: np.ndarray) -> Opinions:
    """Return the opinions of all raters of these items; they have few raters each, so the opinions fit into memory."""
    wanted = np.zeros(truth.ratings.shape[1], dtype=bool)
    wanted[items] = True
    places = [part.start + np.flatnonzero(wanted[truth.ratings.indices[part]]) for part in truth.stretches()]
    place = np.concatenate([np.zeros(0, np.int64), *places])
    place = place[np.argsort(truth.ratings.indices[place], kind="stable")]
    rating, item = truth.ratings.data[place].astype(np.float64), truth.ratings.indices[place]
    user = np.searchsorted(truth.ratings.indptr, place, side="right") - 1
    activity = np.diff(truth.ratings.indptr)[user]
    overall = truth.item_totals[1].sum() / max(1, truth.ratings.nnz)
    rest = (_rating_sums(truth)[user] - rating) / np.maximum(activity - 1, 1)
    own = rating - np.where(activity > 1, rest, overall)
    count, total = np.bincount(item), np.bincount(item, weights=own)
    alone = count[item] == 1
    others = np.where(alone, 0.0, (total[item] - own) / np.maximum(count[item] - 1, 1))
    return Opinions(item, own, others, alone, activity)


def _rating_sums(truth: Truth) -> np.ndarray:
    """Return the sum of each person's ratings."""
    indptr, sums = truth.ratings.indptr, np.zeros(truth.users)
    for part in truth.stretches():
        running = np.concatenate([[0.0], np.cumsum(truth.ratings.data[part], dtype=np.float64)])
        stop = part.start + len(running) - 1
        first, last = np.searchsorted(indptr, [part.start, stop - 1], side="right") - 1
        bounds = np.clip(indptr[first : last + 2], part.start, stop) - part.start
        sums[first : last + 1] += np.diff(running[bounds])
    return sums
