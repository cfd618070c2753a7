"""Hold the ratings behind the records of single people, and what an attacker could guess of them without
the release.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.reconstruction.measures import is_recovered
from checks.reconstruction.rating_scale import rating_scale
from checks.reconstruction.zscores import ZScores, zscores
from checks.recovery.person_baseline import Activity


@dataclass(frozen=True)
class Guess:
    """Hold the best guess without the release: its name, which ratings it hits, and which ratings none of the guesses
    hits."""

    name: str
    hits: np.ndarray
    unguessable: np.ndarray


@dataclass(frozen=True)
class Originals:
    """Hold the `ratings` behind a release, a row per record, and the user of each record (−1: none)."""

    case: Case
    ratings: sp.csr_array
    users: np.ndarray

    @classmethod
    def of(cls, case: Case) -> "Originals":
        """Collect the ratings behind a release in which every record is one person's."""
        truth, users = case.truth, np.full(case.release.n_groups, -1, dtype=np.int64)
        listed = np.flatnonzero((truth.row_of_user >= 0) & truth.seen)
        users[truth.row_of_user[listed]] = listed
        nobody = sp.csr_array((1, truth.ratings.shape[1]), dtype=truth.ratings.dtype)
        ratings = sp.csr_array(truth.ratings[np.maximum(users, 0)] if truth.users else nobody)
        return cls(case, _without(ratings, users < 0), users)

    @cached_property
    def rows(self) -> np.ndarray:
        """The record of every rating."""
        return entry_rows(self.ratings)

    @cached_property
    def scores(self) -> ZScores:
        """The z-scores of the rated entries."""
        return zscores(self.ratings)

    @cached_property
    def all_entry_scores(self) -> ZScores:
        """The z-scores where an unrated entry counts as the person's mean."""
        return zscores(self.ratings, all_entries=True)

    def at(self, matrix: sp.csr_array) -> np.ndarray:
        """Return what a matrix of the same shape has stored for every rating; NaN where nothing."""
        columns = np.int64(self.ratings.shape[1])
        own = entry_rows(matrix) * columns + matrix.indices
        wanted = self.rows * columns + self.ratings.indices
        place = np.searchsorted(own, wanted)
        found = np.append(own, -1)[place] == wanted
        values = np.full(len(wanted), np.nan)
        values[found] = matrix.data[place[found]]
        return values

    def guesses(self, *, knowing_person: bool) -> dict[str, np.ndarray]:
        """Return guesses of every rating without the release.

        All other people's mean rating of the item; the most frequent rating; and, where the attacker is taken to know
        the person's mean and deviation, what follows from these and from all other people's opinion of the item.
        """
        count, total = self.case.truth.item_totals
        items, own = self.ratings.indices, self.ratings.data.astype(np.float64)
        values, often = self.case.truth.value_counts
        everybody = float(total.sum() / max(1, count.sum()))
        guesses = {
            "the item's mean": _others(count, total, items, own, everybody),
            "the most frequent rating": np.full(len(own), float(values[np.argmax(often)])),
        }
        if knowing_person:
            means, deviations = self.scores.means[self.rows], self.scores.deviations[self.rows]
            score = self.scores.matrix.data
            raters = np.bincount(items, minlength=len(count))
            liked = np.bincount(items, weights=score, minlength=len(count))
            guesses["the person's mean"] = means
            likely = _others(raters, liked, items, score, 0.0)
            guesses["the person's mean and the item"] = means + deviations * likely
        return guesses

    def best_guess(self, *, knowing_person: bool) -> "Guess":
        """Return the guess that is right most often."""
        hits = {
            name: is_recovered(guess, self.ratings.data, rating_scale(self.case).half)
            for name, guess in self.guesses(knowing_person=knowing_person).items()
        }
        best = max(hits, key=lambda name: int(hits[name].sum()))
        return Guess(best, hits[best], ~np.logical_or.reduce(list(hits.values())))

    def expected_by_luck(self, claims: sp.csr_array, guessed: np.ndarray) -> np.ndarray:
        """Return per record how many claims ("rated, with this rating") would be right without the release.

        It follows from how active the person and how popular the item is, and from how often a guess of its rating is
        right.
        """
        items = self.ratings.indices
        count = np.bincount(items, minlength=self.ratings.shape[1])
        hits = np.bincount(items, weights=guessed, minlength=len(count))
        overall = float(guessed.mean()) if len(guessed) else 0.0
        share = np.where(count > 0, hits / np.maximum(count, 1), overall)
        activity = Activity.fitted(self.case)
        rows, columns = entry_rows(claims), claims.indices
        person = np.where(self.users >= 0, activity.person[np.maximum(self.users, 0)], 0.0)
        rated = -np.expm1(-person[rows] * activity.popularity[columns])
        return np.bincount(rows, weights=rated * share[columns], minlength=claims.shape[0])


def entry_rows(matrix: sp.csr_array) -> np.ndarray:
    """Return the row of every stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def _others(
    count: np.ndarray, total: np.ndarray, items: np.ndarray, own: np.ndarray, unknown: float
) -> np.ndarray:
    """Return the mean of all other people's values of each item; `unknown` where there are none."""
    others = count[items] - 1
    return np.where(others > 0, (total[items] - own) / np.maximum(others, 1), unknown)


def _without(ratings: sp.csr_array, rows: np.ndarray) -> sp.csr_array:
    """Return the matrix with these rows emptied."""
    if not rows.any():
        return ratings
    there = ~rows[entry_rows(ratings)]
    indptr = np.concatenate([[0], np.cumsum(np.where(rows, 0, np.diff(ratings.indptr)))])
    return sp.csr_array((ratings.data[there], ratings.indices[there], indptr), shape=ratings.shape)
