"""Test for every single person whether their record follows their own ratings, whatever the scale.

The other attacks judge averages over people, and most compare published values with ratings as they are. Both can be
evaded: by publishing one member of each group and no other, or every rating r as 6 − r. Here every person listed is
examined: the published values of their record are correlated with their own ratings, once over all their cells and, in
groups, once over those of fewer than c real contributors, which may hold predictions only (docs/leaks-and-bars.md).
Correlation does not depend on offset, unit or sign. A member of a group of k has a k-th part in its means, and
predictions follow tastes, so r is well above 0 in any useful release; only near 1 is it the person's own record.

Chance must not expose a person, however many people are examined. So the lower Fisher bound of |r| is simultaneous: 95
% over all people and cells examined together (Bonferroni). And a person is testable only if their ratings could stand
in so many different orders that luck would give no person the right one, in nineteen cases of twenty: the record of a
person who gave eight times 4 and once 3 may well have its one low value in the same place.

Where a method publishes single people, values near their own ratings are what it publishes, and whether they can be
found is for the attacks that search for them to judge, by the average. There only values on *another* scale count:
those attacks compare ratings as they are and would see nothing.

The positive control is the same attack where people's own ratings are published in these cells.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.stats import norm

from checks.about import About
from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import FALSE_ALARM, Risk, chance_of_each, correlations, fisher_low, runs

MIN_CONTRIBUTORS = 2  # even where a release promises nothing, a single person's ratings are not published
MIN_CELLS = 8
EXPOSED_FROM = 0.95
CONTROL_SHARE = 0.95


@check(
    "own-ratings",
    threshold=0.0,
    controlled=True,
    as_published=True,
    about=About(
        title="Own ratings",
        summary="Test whether a record follows one person's ratings",
        knows="The attacker knows a person's ratings and record.",
        tries="They test for every single person whether the record follows that person's own ratings, on any scale.",
        means=(
            "A record that follows one member alone is that person's record, whatever the group's size. Nobody is "
            "allowed."
        ),
        measure="share of people whose record is their own",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the share of all testable people whose record follows their own ratings."""
    views = _cell_views(case)
    tests = sum(int(view.enough.sum()) for view in views)
    bounds = [view.bounds(view.r, tests) for view in views]
    highest = np.fmax.reduce(bounds)  # NaN: cannot be tested
    people = np.flatnonzero(~np.isnan(highest))
    if not len(people):
        nothing_to_test = f"no user has {MIN_CELLS} published cells with ratings that differ enough to test."
        none = tuple(_outcome(who, highest[people]) for who in ("all people", "heavy raters"))
        return Finding(
            True, 0.0, 0, nothing_to_test, control=True, planned=0, outcomes=none, applicable=False
        )
    counted = _on_another_scale(case, views[-1]) if case.single else np.ones(case.truth.users, dtype=bool)
    risk = _risk(np.where(counted, highest, 0.0)[people])
    low, high = risk.interval
    control_succeeded, control_text = _control(views, tests, people, case.release.step)
    heavy = np.diff(case.truth.ratings.indptr)[people] >= case.heavy_from
    each = "; ".join(view.summary(bound) for view, bound in zip(views, bounds, strict=True))
    return Finding(
        risk.rate <= threshold,
        risk.rate,
        len(people),
        f"{risk.successes:,} of {len(people):,} testable people are exposed: their record follows their own ratings "
        f"(lower bound of |r| above {EXPOSED_FROM}{', on another scale' if case.single else ''}). "
        f"{each}. Control: {control_text}.",
        ci_low=low,
        ci_high=high,
        control=control_succeeded,
        planned=len(people),
        outcomes=(_outcome("all people", highest[people]), _outcome("heavy raters", highest[people[heavy]])),
    )


def _on_another_scale(case: Case, view: "_CellView") -> np.ndarray:
    """Mark the people whose published values are, on average, further from their ratings than half a level."""
    return view.apart > case.truth.half_level


def _risk(bound: np.ndarray) -> Risk:
    return Risk(int((bound > EXPOSED_FROM).sum()), len(bound))


def _outcome(who: str, bound: np.ndarray) -> Outcome:
    return Outcome(who, _risk(bound), more={"highest_bound": float(bound.max()) if len(bound) else None})


@dataclass(frozen=True)
class _CellView:
    """Hold one figure per person about some cells of their record.

    `cells` counts them; `log_orders` is the logarithm of the number of different orders of the person's ratings in
    them, n! / (n₁! n₂! …); `apart` is the mean distance of the published values from the ratings; `r` correlates the
    two, `rounded` and `plain` are the correlations if the ratings were published, rounded as the release is or
    unrounded.
    """

    kind: str
    cells: np.ndarray
    log_orders: np.ndarray
    apart: np.ndarray
    r: np.ndarray
    rounded: np.ndarray
    plain: np.ndarray

    @classmethod
    def empty(cls, kind: str, users: int) -> "_CellView":
        """Return a view in which no person has any cells yet."""
        return cls(kind, np.zeros(users, np.int64), *(np.zeros(users) for _ in range(5)))

    def add(self, users: np.ndarray, ratings: np.ndarray, values: np.ndarray, rounded: np.ndarray) -> None:
        """Fill in some people: one entry per person and cell, those of a person together and complete."""
        who, starts = runs(users)
        self.cells[who] = np.diff(starts)
        self.log_orders[who] = _log_orders(starts, ratings)
        self.apart[who] = np.add.reduceat(np.abs(values - ratings), starts[:-1]) / np.diff(starts)
        self.r[who] = correlations(starts, ratings, values)
        self.rounded[who] = correlations(starts, ratings, rounded)
        self.plain[who] = correlations(starts, ratings, ratings)

    @property
    def enough(self) -> np.ndarray:
        """Which people have enough cells to be examined."""
        return self.cells >= MIN_CELLS

    def bounds(self, r: np.ndarray, tests: int) -> np.ndarray:
        """Return the lower bound of every person's |r|, as one of this many tests; NaN for people who cannot be tested.

        Whether the record varies is no condition: one that does not vary reveals nothing about the person, and counts
        so.
        """
        luck = 2 * tests * np.exp(-self.log_orders)  # 2: the reverse order counts as well
        bound = fisher_low(np.abs(r), self.cells, float(norm.isf(chance_of_each(tests) / 2)))
        return np.where(self.enough & (luck <= FALSE_ALARM), bound, np.nan)

    def summary(self, bound: np.ndarray) -> str:
        """Summarize the bounds in a few words."""
        tested = bound[~np.isnan(bound)]
        if not len(tested):
            return f"{self.kind}: no person can be tested"
        figures = f"median bound {np.median(tested):.2f}, highest {tested.max():.2f}"
        return f"{self.kind}: {_risk(tested).successes:,} of {len(tested):,}, {figures}"


def _cell_views(case: Case) -> list[_CellView]:
    """Return the views of all cells and, where records are groups', of those with fewer contributors than may be
    published."""
    release, users = case.release, case.truth.users
    fewest = max(MIN_CONTRIBUTORS, release.min_contributors)
    few = None if case.single else _CellView.empty(f"cells with fewer than {fewest} contributors", users)
    whole = _CellView.empty("all cells", users)
    for block in case.group_blocks():  # every person is in one group, and complete in its block
        values = block.published[block.cells]
        rounded = _rounded(block.ratings, release.low, release.step)
        columns = (block.users, block.ratings, values, rounded)
        there = ~np.isnan(values)
        whole.add(*(column[there] for column in columns))
        if few is not None:
            there &= block.contributors.data[block.cells] < fewest
            few.add(*(column[there] for column in columns))
    return [whole] if few is None else [few, whole]


@njit(cache=True, nogil=True)
def _log_orders(starts, ratings):  # type: ignore[no-untyped-def]
    out = np.zeros(len(starts) - 1)
    for person in range(len(out)):
        own = np.sort(ratings[starts[person] : starts[person + 1]])
        out[person] = math.lgamma(len(own) + 1.0)
        alike = 1
        for place in range(1, len(own) + 1):
            if place < len(own) and own[place] == own[place - 1]:
                alike += 1
            else:
                out[person] -= math.lgamma(alike + 1.0)
                alike = 1
    return out


def _control(views: list[_CellView], tests: int, people: np.ndarray, step: float) -> tuple[bool, str]:
    """Test that people are exposed, in every view, when their own ratings are published: rounded as the release is, or
    unrounded."""

    def share(planted: list[np.ndarray]) -> float:
        bounds = [view.bounds(r, tests) for view, r in zip(views, planted, strict=True)]
        return _risk(np.fmin.reduce(bounds)[people]).rate

    rounded = share([view.rounded for view in views])
    summary = f"with people's own ratings in these cells {rounded:.1%} would be exposed"
    if rounded >= CONTROL_SHARE:
        return True, summary
    plain = share([view.plain for view in views])
    return plain >= CONTROL_SHARE, f"{summary} (steps of {step:g} hide them), {plain:.1%} if not rounded"


def _rounded(ratings: np.ndarray, low: float, step: float) -> np.ndarray:
    return low + np.rint((ratings - low) / step) * step if step else ratings
