"""Model how often a person rated an item anyway, by the item's popularity and the person's own activity.

If people rated independently, a person of activity a rated an item of popularity π with chance 1 − exp(−aπ), and a
group whose activities add up to A has a member who did with chance 1 − exp(−Aπ). Given that a group publishes the item,
a member rated it with chance (1 − exp(−aπ)) / (1 − exp(−Aπ)): the heaviest rater of a group gave most of its ratings,
and any attacker may know that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checks.evidence.case import Case
from checks.evidence.views.sample import select_rows

STEPS = 400
AT_ONCE = 256


@dataclass(frozen=True)
class Activity:
    """Hold the activity of every user (`person`) and π of every item (`popularity`)."""

    case: Case
    person: np.ndarray
    popularity: np.ndarray

    @classmethod
    def fitted(cls, case: Case) -> "Activity":
        """Fit the model: popularity is the share of people who rated the item; a user's activity makes the expected
        number of ratings equal the real one."""
        ratings = case.truth.ratings
        rated = np.diff(ratings.indptr)
        share = case.truth.item_totals[0] / max(1, case.truth.users)
        popularity = -np.log1p(-np.minimum(share, 1 - 1e-6))
        steps = np.concatenate([[0], np.geomspace(1e-4, 1e4, STEPS)])
        expected = np.array([-np.expm1(-step * popularity).sum() for step in steps])
        return cls(case, np.interp(rated, expected, steps), popularity)

    def expected(
        self, targets: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return per target the cells of the own group's profile, how many of them the target is expected to have rated
        without the release, and how many given that the group publishes them; with `weight`, each item counts that
        much."""
        case = self.case
        weight = np.ones(case.release.n_items) if weight is None else weight
        cells, alone, given_published = (np.zeros(len(targets)) for _ in range(3))
        if case.release.complete:
            for start in range(0, len(targets), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                cells[some] = case.release.n_items
                alone[some] = self._chance(self.person[targets[some]]) @ weight
            return cells, alone, alone.copy()  # every group has every item: that reveals nothing
        rows = case.truth.row_of_user
        together = np.bincount(rows[rows >= 0], self.person[rows >= 0], minlength=case.release.n_groups)
        for part, there in _patterns(case, targets):
            chance = self._chance(self.person[targets[part]])
            any_member = self._chance(together[rows[targets[part]]])
            cells[part] = there.sum(axis=1)
            alone[part] = np.where(there, chance, 0) @ weight
            given_published[part] = np.where(there, chance / np.maximum(any_member, 1e-12), 0) @ weight
        return cells, alone, given_published

    def _chance(self, activity: np.ndarray) -> np.ndarray:
        """Return for each of these activities and every item the chance that it was rated."""
        return -np.expm1(-np.outer(activity, self.popularity))


def _patterns(case: Case, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield some targets at a time (their positions), and which items the group of each publishes."""
    rows = case.truth.row_of_user[targets]
    for block in case.release.blocks():
        inside = np.flatnonzero((rows >= block.start) & (rows < block.start + block.rows))
        if not len(inside):
            continue
        chosen = np.unique(rows[inside])
        there = select_rows(block, chosen).pattern().toarray() > 0
        for start in range(0, len(inside), AT_ONCE):
            part = inside[start : start + AT_ONCE]
            yield part, there[np.searchsorted(chosen, rows[part])]


def published_ratings(case: Case, targets: np.ndarray) -> np.ndarray:
    """Count per target how many of the own ratings are among the items the own group publishes."""
    if case.release.complete:
        return np.diff(case.truth.ratings.indptr)[targets].astype(np.float64)
    count = np.zeros(len(targets))
    for part, there in _patterns(case, targets):
        rated = case.truth.ratings[targets[part]].tocoo()
        count[part] = np.bincount(rated.row, there[rated.row, rated.col], minlength=len(part))
    return count
