"""Attack with made-up accounts (sybils): what do they reveal of the one rater of an item, and of one person's group?

*Opinions.* An item with fewer than c raters enters no model, so c − 1 accounts that rate it open it. In a release of
such data (tasks/shadow/sybils.py) the attacker sorts the items by what their columns show
(checks/opinions/sybil_signals.py) and guesses that the one real rater liked those above, that is rated them higher than
the mean of that person's other ratings. What gates is the area under the curve, at its upper bound, for the worst
score: each of the signals, and their best linear combination, learned on one half of the people and measured on the
other. Scores may be read in either direction. Where one run has few opinions there are several, and all are pooled: the
signals are standardized within each run, and the interval takes all opinions of one person, in all runs, as dependent.

No correction for several scores is needed: all of them must be below the threshold at their upper bounds, and the bound
of the one that is truly the worst holds with its own confidence.

*Groups.* k − 1 copies of what is known of a person may end alone with that person in one group, whose profile then is
that person's. How often they do, and how well the group's profile then predicts the person's other ratings, is reported
and does not gate.

Where every record is one person's, and in data too small to plant enough opinions, the check is not applicable.
"""

from dataclasses import dataclass

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.evidence.release_view import ReleaseView
from checks.evidence.views.raw import is_raw
from checks.evidence.views.sybils import (
    FEWEST_ITEMS,
    FEWEST_RATINGS,
    HALF,
    THIRDS,
    PlantedCopies,
    PlantedOpinions,
    is_attackable,
    open_copies,
    open_opinions,
)
from checks.opinions.area import Area, area_under_curve, mean_area
from checks.opinions.carrying_release import CarryingRelease
from checks.opinions.item_levels import item_levels
from checks.opinions.sybil_signals import SIGNALS, measure_signals
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, correlation

MIN_CONTROL_AREA = 0.9
SAME = 1e-6  # opinions nearer than this to 0 are neither a like nor a dislike
COMBINED = "all of these"


@dataclass(frozen=True)
class Guesses:
    """Hold the area under the curve of every score, and how many opinions the worst of them puts on the right side."""

    areas: dict[str, Area]
    right: int
    opinions: int
    likes: int

    @property
    def worst(self) -> str:
        """The score with the highest upper bound."""
        return max(self.areas, key=lambda name: (self.areas[name].most, self.areas[name].turned.value))

    def __str__(self) -> str:
        return ", ".join(f"{area.turned.value:.3f} by {name}" for name, area in self.areas.items())


@check(
    "sybil",
    threshold=0.65,
    controlled=True,
    about=About(
        title="Made-up accounts",
        summary="Open a rare item by rating it from made-up accounts",
        knows="The attacker owns as many accounts as an item lacks for being published and rates the item with them.",
        tries="They infer from the published values whether the one real rater liked the item.",
        means=(
            "0.5 is what a coin achieves and 1 is certainty; above the limit an attacker could buy a person's "
            "opinion with a few accounts."
        ),
        measure="area under the curve of the best inference",
        unit="",
        guess=0.5,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure how well made-up accounts reveal the opinion of an item's only real rater (area, upper bound)."""
    persons = rules_of(case.release.manifest["method"]).publishes_persons or is_raw(case)
    if persons and case.single:
        return _not_applicable("every record is one person's: it needs no made-up account to be read.")
    if not is_attackable(case):
        return _not_applicable(
            f"the groups that are judged hold {case.release.n_items:,} items, and their people gave them "
            f"{case.truth.ratings.nnz:,} ratings; with fewer than "
            f"{FEWEST_ITEMS:,} items or {FEWEST_RATINGS:,} ratings, too few opinions can be attacked to measure it."
        )
    draws = open_opinions(case)
    found = guess_opinions(case, [(planted, planted.release) for planted in draws])
    control = guess_opinions(case, [(planted, _carrying(planted)) for planted in draws]).areas["level"]
    worst = found.areas[found.worst]
    groups, group_text = _copies(case)
    low = worst.turned.interval[0]
    accounts = case.release.min_contributors - 1
    runs = f", in {len(draws)} runs together" if len(draws) > 1 else ""
    return Finding(
        worst.most <= threshold,
        worst.turned.value,
        found.opinions,
        f"{accounts:,} made-up account{'s' if accounts != 1 else ''} on each of {found.opinions:,} items with one real "
        f"rater{runs}: like or dislike is inferred with area {worst.turned.value:.3f} (at most {worst.most:.3f}; a "
        f"coin has 0.5) by {found.worst}. All: {found}. Control, columns that carry the opinions: {control.value:.3f}. "
        f"{group_text}",
        ci_low=low,
        ci_high=worst.most,
        control=control.value >= MIN_CONTROL_AREA,
        control_share=control.value,
        outcomes=(_outcome(found), *groups),
    )


def _not_applicable(why: str) -> Finding:
    return Finding(
        True, None, 0, why, control=True, outcomes=(Outcome("not tried", Risk(0, 0)),), applicable=False
    )


# Opinions


def guess_opinions(case: Case, draws: list[tuple[PlantedOpinions, ReleaseView]]) -> Guesses:
    """Score the items of releases and compare the scores with what their one real rater thinks of them."""
    scored = [_score(case, planted, release) for planted, release in draws]
    signals, liked, rater = (np.concatenate(parts) for parts in zip(*scored, strict=True))
    areas = {name: area_under_curve(signals[:, at], liked, rater) for at, name in enumerate(SIGNALS)}
    areas[COMBINED] = _combined(signals, liked, rater, case.draw("sybil halves"))
    high = signals[:, 0] > np.median(signals[:, 0])
    right = int((high == liked).sum())
    return Guesses(areas, max(right, len(liked) - right), len(liked), int(liked.sum()))


def _score(
    case: Case, planted: PlantedOpinions, release: ReleaseView
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the standardized signals of the items of one release, whether each was liked, and by whom."""
    signals = measure_signals(release, planted.item, planted.group, case.draw("sybil items"))
    spread = signals.std(axis=0)
    signals = (signals - signals.mean(axis=0)) / np.where(spread > 0, spread, 1)
    opinion = planted.rating - planted.usual
    clear = np.abs(opinion) > SAME
    return signals[clear], opinion[clear] > 0, planted.rater[clear]


def _carrying(planted: PlantedOpinions) -> CarryingRelease:
    """Return the release with columns that carry their raters' opinions, for the control."""
    share = (planted.rating - planted.usual) / planted.release.min_contributors
    return CarryingRelease(planted.release, planted.item, share)


def _combined(signals: np.ndarray, liked: np.ndarray, rater: np.ndarray, draw: np.random.Generator) -> Area:
    """Learn the best linear score on the opinions of half of the people and measure it on the other half's, both ways
    round."""
    half = draw.random(int(rater.max(initial=0)) + 1)[rater] < 0.5
    areas = []
    for test in (half, ~half):
        learn = ~test
        known = np.column_stack([signals[learn], np.ones(int(learn.sum()))])
        weights = np.linalg.lstsq(known, np.where(liked[learn], 1.0, -1.0), rcond=None)[0][:-1]
        areas.append(area_under_curve(signals[test] @ weights, liked[test], rater[test]))
    return mean_area(areas)


def _outcome(found: Guesses) -> Outcome:
    """Return the opinions as a line of `murmur attack`: guessed by whether the level is above most; the baseline always
    guesses the more frequent answer."""
    frequent = max(found.likes, found.opinions - found.likes) / max(1, found.opinions)
    more = {f"area_by_{name.replace(' ', '_')}": area.value for name, area in found.areas.items()}
    return Outcome(
        "made-up accounts on items with one rater", Risk(found.right, found.opinions, frequent), more=more
    )


# Groups


def _copies(case: Case) -> tuple[list[Outcome], str]:
    """Report how often a person is alone with the copies, by activity and by what was known."""
    copies = open_copies(case)
    if copies is None:
        return (
            [],
            f"Copies of people were not tried: {case.release.k - 1:,} copies each are too many for these data.",
        )
    alone = is_alone(copies)
    outcomes, shares = [], []
    for known in np.unique(copies.known)[::-1]:
        name = "half" if known == HALF else f"{known}"
        some = copies.known == known
        by_third = [
            (int(alone[some & (copies.third == number)].sum()), int((some & (copies.third == number)).sum()))
            for number in range(len(THIRDS))
        ]
        parts = {third: f"{count} of {of}" for third, (count, of) in zip(THIRDS, by_third, strict=True)}
        risk = Risk(int(alone[some].sum()), int(some.sum()))
        outcomes.append(Outcome(f"copies with {name} of a person's ratings", risk, more=parts))
        shares.append(f"{risk.successes} of {risk.n} knowing {name}")
    taste = {
        name: taste_correlation(case, copies, who) for name, who in (("alone", alone), ("others", ~alone))
    }
    text = (
        f"Reported, not gated: with {case.release.k - 1} copies of what is known, a person is alone in the group for "
        f"{', '.join(shares)} ratings; the group's profile follows the person's other ratings by "
        f"{taste['alone']:+.2f} then, by {taste['others']:+.2f} else."
    )
    return outcomes, text


def is_alone(copies: PlantedCopies) -> np.ndarray:
    """Return which targets have nobody but their own copies in their group."""
    group = copies.group[~copies.copy]
    together = copies.group == group[copies.target]
    own = np.bincount(copies.target, weights=together, minlength=len(group))
    return own == copies.release.listed[group]


def taste_correlation(case: Case, copies: PlantedCopies, who: np.ndarray) -> float:
    """Return how the profiles of these targets' groups correlate with what the targets rated and nobody knew.

    Both less the item's mean and each target's mean: what anybody could guess is no recovery. 0 without any target.
    """
    target, item, rating = copies.unknown
    if copies.release.n_items != case.release.n_items:
        return 0.0
    chosen = who[target]
    target, item, rating = target[chosen], item[chosen], rating[chosen]
    group = copies.group[~copies.copy][target]
    level, _ = item_levels(copies.release)
    shown = np.full(len(item), np.nan)
    for block in copies.release.blocks():
        here = np.flatnonzero((group >= block.start) & (group < block.start + block.rows))
        shown[here] = block.at(group[here] - block.start, item[here])
    there = ~np.isnan(shown)
    target = target[there]
    apart = [shown[there] - level[item[there]], rating[there] - case.item_means[item[there]]]
    count = np.maximum(np.bincount(target), 1)
    one, other = (values - (np.bincount(target, weights=values) / count)[target] for values in apart)
    return correlation(one, other)[0]
