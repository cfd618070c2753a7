"""How often a person rated an item anyway: by the item's popularity and the person's own activity.

If people rated independently, somebody of activity a rated an item of popularity π with chance 1 − exp(−aπ), and a
group whose activities add up to A has somebody who did with chance 1 − exp(−Aπ). That a group publishes the item
then tells of its members (1 − exp(−aπ)) / (1 − exp(−Aπ)): the heaviest rater of a group did most of its rating, and
everybody may know that.
"""

from dataclasses import dataclass

import numpy as np

from checks.case import Case

STEPS = 400
AT_ONCE = 256


@dataclass(frozen=True)
class Activity:
    """`person`: the activity of every user; `popularity`: π of every item."""

    case: Case
    person: np.ndarray
    popularity: np.ndarray

    @classmethod
    def fitted(cls, case: Case) -> "Activity":
        """Popularity is everybody's share of raters; activity such that the expected ratings are a user's number."""
        ratings = case.truth.ratings
        rated = np.diff(ratings.indptr)
        share = np.bincount(ratings.indices, minlength=case.release.n_items) / max(1, case.truth.users)
        popularity = -np.log1p(-np.minimum(share, 1 - 1e-6))
        steps = np.concatenate([[0], np.geomspace(1e-4, 1e4, STEPS)])
        expected = np.array([-np.expm1(-step * popularity).sum() for step in steps])
        return cls(case, np.interp(rated, expected, steps), popularity)

    def expected(
        self, targets: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per target: the cells of the own group's profile, how many the target rated by this chance alone, and how
        many knowing that the group publishes them; with `weight`, each item counts that much."""
        case = self.case
        weight = np.ones(case.release.n_items) if weight is None else weight
        together = case.belongs @ self.person
        rows = case.truth.row_of_user[targets]
        cells, alone, knowing = (np.zeros(len(targets)) for _ in range(3))
        for block in case.release.blocks():
            inside = np.flatnonzero((rows >= block.start) & (rows < block.start + block.rows))
            pattern = block.pattern()
            for start in range(0, len(inside), AT_ONCE):
                part = inside[start : start + AT_ONCE]
                there = pattern[rows[part] - block.start].toarray() > 0
                chance = -np.expm1(-np.outer(self.person[targets[part]], self.popularity))
                somebody = -np.expm1(-np.outer(together[rows[part]], self.popularity))
                cells[part] = there.sum(axis=1)
                alone[part] = np.where(there, chance, 0) @ weight
                told = chance if case.release.complete else chance / np.maximum(somebody, 1e-12)
                knowing[part] = np.where(there, told, 0) @ weight
        return cells, alone, knowing


def published_ratings(case: Case) -> np.ndarray:
    """Per user: how many of the own ratings are among the items the own group publishes."""
    there = ~np.isnan(case.published[case.cell_of_rating])
    return np.bincount(case.rating_rows[case.listed_ratings], weights=there, minlength=case.truth.users)
