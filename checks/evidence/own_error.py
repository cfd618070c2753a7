"""Measure how well the published cells describe the people they are about: a release's own error.

For every rating of a person whose record publishes the item, the published value is compared with the rating. It is the
same figure for the release and for its shadow, in-sample for both: what a release loses on ratings it never saw is
measured elsewhere (checks/utility/utility.py). Beside it stands the error by another record: everybody is given a
record by chance. Values that have nothing to do with the people (drawn at random, permuted between groups or items, all
the same) are as wrong about their own people as about others.
"""

import math
from dataclasses import dataclass

import numpy as np

from checks.evidence.case import Case
from checks.evidence.groups import GroupBlock, Groups
from checks.evidence.release_view import ReleaseView

MOST_PEOPLE = 50_000  # as many as a shadow has at most


@dataclass(frozen=True)
class OwnErrors:
    """Hold squared errors summed up per person (row of the truth) and the number of compared ratings, by the person's
    own record and by one drawn at random."""

    own: np.ndarray
    own_count: np.ndarray
    drawn: np.ndarray
    drawn_count: np.ndarray

    def own_rmse(self, people: np.ndarray | slice = slice(None)) -> float:
        """Return the error of these people's own records; NaN where nothing can be compared."""
        return _rmse(self.own[people], self.own_count[people])

    def drawn_rmse(self, people: np.ndarray | slice = slice(None)) -> float:
        """Return the error of records drawn at random."""
        return _rmse(self.drawn[people], self.drawn_count[people])

    @property
    def compared(self) -> int:
        """Number of ratings compared with their own record."""
        return int(self.own_count.sum())


def own_errors(case: Case) -> OwnErrors:
    """Compare a release (or its shadow), with the numbers as published, with what its people rated.

    Of more than MOST_PEOPLE people a sample is compared, drawn by the release's fingerprint.
    """
    truth, release = case.truth, case.release
    there = (truth.row_of_user >= 0) & truth.seen & (np.diff(truth.ratings.indptr) > 0)
    people = np.flatnonzero(there)
    if len(people) > MOST_PEOPLE:
        people = case.in_drawn_order(people, "own error")[:MOST_PEOPLE]
    own, drawn = (np.full(truth.users, -1, np.int32) for _ in range(2))
    own[people] = truth.row_of_user[people]
    drawn[people] = case.draw("own error").permutation(own[people])
    listed = [Groups(truth.listed_at(rows), release.n_groups) for rows in (own, drawn)]
    sums, counts = np.zeros((2, truth.users)), np.zeros((2, truth.users), np.int64)
    for profiles in release.blocks():
        for which, groups in enumerate(listed):
            block = groups.block(profiles)
            error = _errors(block, release)
            known = ~np.isnan(error)
            users = block.users[known]
            sums[which] += np.bincount(users, error[known].astype(np.float64) ** 2, truth.users)
            counts[which] += np.bincount(users, minlength=truth.users)
    return OwnErrors(sums[0], counts[0], sums[1], counts[1])


def _errors(block: GroupBlock, release: ReleaseView) -> np.ndarray:
    """Return published value less rating, for every rating of the members; NaN where the record has no value.

    z-scores are compared with the z-scores of the person's ratings.
    """
    published = block.published[block.cells]
    if release.unit != "z-score" or not len(published):
        return published - block.ratings
    _, owner = np.unique(block.users, return_inverse=True)
    count = np.bincount(owner)
    apart = block.ratings - (np.bincount(owner, block.ratings) / count)[owner]
    among = release.n_items if release.complete else count  # unrated entries count as the person's mean
    deviation = np.sqrt(np.bincount(owner, apart**2) / among)[owner]
    return published - np.divide(apart, deviation, out=np.zeros(len(apart)), where=deviation > 1e-9)


def _rmse(sums: np.ndarray, counts: np.ndarray) -> float:
    count = int(counts.sum())
    return math.sqrt(float(sums.sum()) / count) if count else math.nan
