"""Test whether an item's column reveals what one of its few raters thought of it (docs/leaks-and-bars.md).

A model that was fitted to an item with few raters follows their ratings in every group's prediction. The attacker takes
each item's published values, less the level of the groups that publish it, and tests across items with up to 20 raters
whether the columns correlate with one rater's opinion beyond what the other raters' mean opinion explains: what remains
is what an attacker learns who knows, or is, the others.

Two rules, both for all numbers of raters together (Bonferroni):

- over all raters, in bins of items with about as many raters, the correlation is at most the threshold at the *upper*
  bound. Bins with fewer than 100 items are merged with their neighbour: with 100 the interval is ± 0.26 wide, so a
  column that reveals nothing passes with a chance above 99 %.
  Items below min_contributors are judged apart, and at the upper bound however few they are: nothing of them may be
  published. Of the others fewer than 60 in all are judged at the lower bound (below): the upper bound would refuse even
  columns that reveal nothing more often than once in twenty, whatever the owner does.
- in each bin as it is, over all raters, for the raters with the fewest and with the most ratings, and for the rater
  nearest to the column (its gain over chance, checks/opinions/nearest_rater.py), it is not above the threshold at the
  *lower* bound. A leak in one small bin, or of one rater of each item, is not averaged away.

A leak can be shown in ten items or more. Where there are fewer, none below min_contributors, nothing is judged.
Numbers of raters for which all columns are the same reveal no opinion and are left out of the bins, where they would
hide what the others show.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.stats import norm

from checks.about import About
from checks.evidence.case import Case
from checks.opinions.item_levels import item_levels
from checks.opinions.nearest_rater import NearestRater, find_nearest
from checks.opinions.partial_correlation import Correlation, correlate
from checks.opinions.raters import Opinions, join, opinions_of
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk

MOST_RATERS = 20
LARGEST_OF_BIN = (1, 2, 3, 5, 10, MOST_RATERS)
FEWEST_ITEMS = 100  # of a bin that is judged at the upper bound, where there are so many
FEWEST_BOUNDED = 60  # items with min_contributors raters or more that are judged at the upper bound
FEWEST_SHOWN = 10  # items of a bin in which a leak can be shown at all

Bins = dict[tuple[int, int], Opinions]  # by the fewest and the most raters of their items


@dataclass(frozen=True)
class Tested:
    """Hold a correlation (or a gain over chance), of which items and raters it is, and the bound that is judged;
    `opinions` where it is over all raters."""

    name: str
    r: float
    interval: tuple[float, float]
    bound: float
    upper: bool
    items: int
    opinions: Opinions | None = None

    def __str__(self) -> str:
        least = "at most" if self.upper else "at least"
        return f"{self.name}: {self.r:+.2f} ({least} ±{self.bound:.2f}, {self.items:,} items)"


@check(
    "rare-items",
    threshold=0.5,
    about=About(
        title="Rare items",
        summary="Read one rater's opinion from a rare item's column",
        knows="The attacker knows who rated an item with up to 20 raters, and all of its ratings but one.",
        tries="They correlate the item's published values with the opinion of the remaining rater.",
        means=(
            "A model that was fitted to few ratings follows them; above the limit a rare item's column would "
            "betray what one person thought of it."
        ),
        measure="correlation with one rater's opinion",
        unit="",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the correlation between the columns of items with up to 20 raters and one rater's opinion (upper
    bound)."""
    raters = case.truth.raters
    level, there = item_levels(case.release)
    items = np.flatnonzero(there & (raters >= 1) & (raters <= MOST_RATERS))
    opinions = opinions_of(case.truth, items)
    shows = ~_flat(level, raters, np.unique(opinions.item), case.release.step / 2)
    shown = opinions.take(shows[opinions.item])
    below = raters[shown.item] < max(2, case.release.min_contributors)
    rare, others = (_bins(shown.take(part), raters) for part in (below, ~below))
    bounded = (_merge(rare) if _count(rare) > 1 else {}) | (
        _merge(others) if _count(others) >= FEWEST_BOUNDED else {}
    )
    small = _merge(others) if 0 < _count(others) < FEWEST_BOUNDED else {}
    judged = _judge_upper(level, bounded)
    each = _judge_lower(level, rare | others | small, case.draw("rare items"))
    text = f"{len(items):,} published items have 1 to {MOST_RATERS} raters in the source"
    if same := len(np.unique(opinions.item)) - len(np.unique(shown.item)):
        text += f"; the columns of {same:,} are all the same and reveal no opinion"
    if not judged and not each:
        few = f"; {_count(rare | others):,} are too few to measure what they reveal" if len(shown.own) else ""
        outcomes = (Outcome(f"the columns of items with 1 to {MOST_RATERS} raters", Risk(0, 0)),)
        return Finding(True, 0.0, len(opinions.own), f"{text}{few}.", outcomes=outcomes, applicable=False)
    alarms = [tested for tested in each if tested.bound > threshold]
    worst = max(alarms or judged or each, key=lambda tested: tested.bound)
    low, high = worst.interval
    everybody = judged or [tested for tested in each if tested.opinions is not None]
    return Finding(
        not alarms and all(tested.bound <= threshold for tested in judged),
        worst.r,
        len(shown.own),
        f"{text}. Correlation of the columns with one rater's opinion, beyond the other raters': {worst}. "
        f"Over all raters: {'; '.join(map(str, everybody))}."
        + (
            f" {len(alarms)} of {len(each)} parts of them are beyond the limit for certain." if alarms else ""
        ),
        ci_low=low,
        ci_high=high,
        outcomes=tuple(_outcome(tested, level) for tested in everybody),
    )


def _flat(level: np.ndarray, raters: np.ndarray, items: np.ndarray, margin: float) -> np.ndarray:
    """Return which items (by position) have the same column as all items with as many raters.

    Of numbers of raters that one item alone has, the column is compared with those of the other flat numbers.
    """
    flat = np.zeros(len(level), dtype=bool)
    by_number = [items[raters[items] == number] for number in range(1, MOST_RATERS + 1)]
    same = [some for some in by_number if len(some) > 1 and np.ptp(level[some]) <= margin]
    for some in same:
        flat[some] = True
    if same:
        common = np.array([level[some[0]] for some in same])
        for some in by_number:
            if len(some) == 1:
                flat[some] = bool((np.abs(common - level[some[0]]) <= margin).any())
    return flat


def _bins(opinions: Opinions, raters: np.ndarray) -> Bins:
    """Return the opinions by the fewest and the most raters of their items; without empty bins."""
    number = raters[opinions.item]
    found = {}
    for before, last in pairwise((0, *LARGEST_OF_BIN)):
        inside = (number > before) & (number <= last)
        if inside.any():
            found[int(number[inside].min()), int(number[inside].max())] = opinions.take(inside)
    return found


def _count(bins: Bins) -> int:
    """Return the number of items."""
    return sum(len(np.unique(some.item)) for some in bins.values())


def _merge(bins: Bins) -> Bins:
    """Merge neighbouring bins until each has FEWEST_ITEMS; what is left over joins the last."""
    groups: list[Bins] = [{}]
    for bounds, some in bins.items():
        if _count(groups[-1]) >= FEWEST_ITEMS:
            groups.append({})
        groups[-1][bounds] = some
    if len(groups) > 1 and _count(groups[-1]) < FEWEST_ITEMS:
        left_over = groups.pop()
        groups[-1] |= left_over
    return {(next(iter(group))[0], next(reversed(group))[1]): join(list(group.values())) for group in groups}


def _judge_upper(level: np.ndarray, bins: Bins) -> list[Tested]:
    """Correlate over all raters in each bin, for the upper bound."""
    z = _z(len(bins))
    found = [(_named(bounds), correlate(level, some), some) for bounds, some in bins.items()]
    return [
        Tested(name, one.r, one.interval(z), one.most(z), True, one.items, some) for name, one, some in found
    ]


def _judge_lower(level: np.ndarray, bins: Bins, draw: np.random.Generator) -> list[Tested]:
    """Correlate in each bin over all raters and with single raters of each item, for the lower bound."""
    found: list[tuple[str, Correlation | NearestRater, Opinions | None]] = []
    for bounds, some in bins.items():
        if len(np.unique(some.item)) < FEWEST_SHOWN:
            continue
        name = _named(bounds)
        found.append((name, correlate(level, some), some))
        if bounds[1] > 1:
            few, many = some.one_per_item(some.activity), some.one_per_item(-some.activity)
            found += [
                (f"{name}, the rater with the fewest ratings", correlate(level, few), None),
                (f"{name}, the rater with the most ratings", correlate(level, many), None),
                (f"{name}, the nearest rater, above chance", find_nearest(level, some, draw), None),
            ]
    z = _z(len(found))
    return [
        Tested(name, one.r, one.interval(z), one.least(z), False, one.items, some)
        for name, one, some in found
    ]


def _z(tests: int) -> float:
    """Return how many standard errors hold for so many tests together."""
    return float(norm.ppf(1 - 0.025 / max(1, tests)))


def _named(bounds: tuple[int, int]) -> str:
    fewest, most = bounds
    if fewest == most:
        return "1 rater" if most == 1 else f"{most} raters"
    return f"{fewest} to {most} raters"


def _outcome(tested: Tested, level: np.ndarray) -> Outcome:
    """Predict whether a rater likes the item more than most such items are liked, by its column standing above most;
    the baseline always predicts the more frequent answer."""
    assert tested.opinions is not None
    column, own = level[tested.opinions.item], tested.opinions.own
    liked, high = own > np.median(own), column > np.median(column)
    risk = Risk(int((liked == high).sum()), len(liked), max(float(liked.mean()), 1 - float(liked.mean())))
    low, most = tested.interval
    more = {"correlation": tested.r, "correlation_low": low, "correlation_high": most, "items": tested.items}
    return Outcome(f"the columns of items with {tested.name}", risk, more=more)
