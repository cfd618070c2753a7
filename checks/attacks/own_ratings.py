"""Does anybody's record follow their own ratings? Asked of every single person, whatever the scale.

The other attacks judge averages over people, and most compare published values with ratings as they stand. Both can be
got round: by publishing one member of each group and nobody else, or every rating r as 6 − r. Here every person listed
is looked at: the published values of their record are correlated with their own ratings, once over all their cells and,
in groups, once over those of fewer than c real contributors, which may hold predictions only (SCIENCE P0, leak i).
Correlation knows neither offset, unit nor sign. A member of a group of k has a k-th part in its means, and predictions
follow tastes, so r is well above 0 in any useful release; only near 1 is it the person's own record.

Chance must not expose anybody, however many people are looked at. So the lower Fisher bound of |r| is simultaneous:
95 % over all people and cells looked at together (Bonferroni). And somebody is testable only if their ratings could
stand in so many different orders that luck would bring the right one to no one, in nineteen cases of twenty: who gave
eight times 4 and once 3 may well have a record with its one low value in the same place.

Where a method publishes single people, values near their own ratings are what it publishes, and whether they can be
found is for the attacks that seek them to judge, by the average. There only
values on *another* scale count: those attacks compare ratings as they stand and would see nothing.

The positive control is the same attack where people's own ratings are published in these cells.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln
from scipy.stats import norm

from checks.case import Case
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, correlations, fisher_low

FEWEST = 2  # even where a release promises nothing, a single person's ratings are not published
FEWEST_CELLS = 8
EXPOSED_FROM = 0.95
CHANCE = 0.05  # of exposing anybody at all by luck
CONTROL_SHARE = 0.95


@check("own-ratings", threshold=0.0, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Share of all testable people whose record follows their own ratings."""
    views = _views(case)
    tests = sum(int(view.enough.sum()) for view in views)
    bounds = [view.bounds(view.values, tests) for view in views]
    highest = np.fmax.reduce(bounds)  # NaN: cannot be tested
    people = np.flatnonzero(~np.isnan(highest))
    if not len(people):
        nobody = (
            f"nobody has {FEWEST_CELLS} published cells with ratings that differ enough: nothing to test."
        )
        none = tuple(_outcome(who, highest[people]) for who in ("everybody", "heavy raters"))
        return Finding(True, 0.0, 0, nobody, control=True, planned=0, outcomes=none)
    counted = _elsewhere(case, views[-1]) if case.single else np.ones(case.truth.users, dtype=bool)
    risk = _risk(np.where(counted, highest, 0.0)[people])
    low, high = risk.interval
    alive, control = _control(views, tests, people, case.release.low, case.release.step)
    heavy = np.diff(case.truth.ratings.indptr)[people] >= case.heavy_from
    each = "; ".join(view.said(bound) for view, bound in zip(views, bounds, strict=True))
    return Finding(
        risk.rate <= threshold,
        risk.rate,
        len(people),
        f"{risk.successes:,} of {len(people):,} testable people are exposed: their record follows their own ratings "
        f"(lower bound of |r| above {EXPOSED_FROM}{', on another scale' if case.single else ''}). "
        f"{each}. Control: {control}.",
        ci_low=low,
        ci_high=high,
        control=alive,
        planned=len(people),
        outcomes=(_outcome("everybody", highest[people]), _outcome("heavy raters", highest[people[heavy]])),
    )


def _elsewhere(case: Case, view: "_View") -> np.ndarray:
    """People whose published values are, on average, further from their ratings than half a level."""
    apart = np.bincount(view.owner, weights=np.abs(view.values - view.ratings), minlength=view.users)
    count = np.bincount(view.owner, minlength=view.users)
    return apart > case.truth.half_level * np.maximum(count, 1)


def _risk(bound: np.ndarray) -> Risk:
    return Risk(int((bound > EXPOSED_FROM).sum()), len(bound))


def _outcome(who: str, bound: np.ndarray) -> Outcome:
    return Outcome(who, _risk(bound), more={"highest_bound": float(bound.max()) if len(bound) else None})


@dataclass(frozen=True)
class _View:
    """Some cells of everybody's record, one entry per person and cell: whose, their rating, the published value."""

    kind: str
    users: int
    owner: np.ndarray
    ratings: np.ndarray
    values: np.ndarray

    @cached_property
    def enough(self) -> np.ndarray:
        """Who has enough cells to be looked at."""
        return np.bincount(self.owner, minlength=self.users) >= FEWEST_CELLS

    @cached_property
    def log_orders(self) -> np.ndarray:
        """Logarithm of the number of different orders of each person's ratings: n! / (n₁! n₂! …)."""
        levels = np.unique(self.ratings)
        level = np.searchsorted(levels, self.ratings)
        keys, count = np.unique(self.owner.astype(np.int64) * len(levels) + level, return_counts=True)
        alike = np.bincount(keys // max(1, len(levels)), weights=gammaln(count + 1), minlength=self.users)
        return gammaln(np.bincount(self.owner, minlength=self.users) + 1) - alike

    def bounds(self, values: np.ndarray, tests: int) -> np.ndarray:
        """Lower bound of everybody's |r| between their ratings and these values, one of so many tests; NaN for
        people who cannot be tested.

        Whether the record varies is no condition: one that does not tells nothing about the person, and counts so.
        """
        luck = 2 * tests * np.exp(-self.log_orders)  # 2: upside down would do as well
        r, n = correlations(self.owner, self.ratings, values, self.users)
        bound = fisher_low(np.abs(r), n, float(norm.isf(CHANCE / 2 / max(1, tests))))
        return np.where(self.enough & (luck <= CHANCE), bound, np.nan)

    def said(self, bound: np.ndarray) -> str:
        """What came out, in a few words."""
        tested = bound[~np.isnan(bound)]
        if not len(tested):
            return f"{self.kind}: nobody can be tested"
        figures = f"median bound {np.median(tested):.2f}, highest {tested.max():.2f}"
        return f"{self.kind}: {_risk(tested).successes:,} of {len(tested):,}, {figures}"


def _views(case: Case) -> list[_View]:
    """All cells; and where records are groups', those with fewer contributors than may be published."""
    values, listed = case.published[case.cell_of_rating], case.listed_ratings
    there = ~np.isnan(values)
    chosen = {"all cells": there}
    if not case.single:
        fewest = max(FEWEST, case.release.min_contributors)
        few = there & (case.contributors.data[case.cell_of_rating] < fewest)
        chosen = {f"cells with fewer than {fewest} contributors": few, **chosen}
    users, ratings = case.rating_rows, case.truth.ratings.data
    return [
        _View(kind, case.truth.users, users[listed[some]], ratings[listed[some]], values[some])
        for kind, some in chosen.items()
    ]


def _control(views: list[_View], tests: int, people: np.ndarray, low: float, step: float) -> tuple[bool, str]:
    """Are people exposed, in every view, whose own ratings are published: rounded as the release is, or as they are?"""

    def share(step: float) -> float:
        planted = [view.bounds(_rounded(view.ratings, low, step), tests) for view in views]
        return _risk(np.fmin.reduce(planted)[people]).rate

    rounded = share(step)
    said = f"with people's own ratings in these cells {rounded:.1%} would be exposed"
    if rounded >= CONTROL_SHARE:
        return True, said
    plain = share(0.0)
    return plain >= CONTROL_SHARE, f"{said} (steps of {step:g} hide them), {plain:.1%} if not rounded"


def _rounded(ratings: np.ndarray, low: float, step: float) -> np.ndarray:
    return low + np.rint((ratings - low) / step) * step if step else ratings
