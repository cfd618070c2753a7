"""Infer membership: was this person in the data at all?

The attacker measures how well the best record fits what they know (checks/linkage/membership_signals.py), and how well
the directions of the whole release agree with it (checks/linkage/whitened_signals.py), and answers "member" above a
threshold. A release contains every person, so the attack runs on the shadow release (checks/evidence/views/shadow.py):
members against people it was made without. Of a small source there are several, each without other people: a signal is
then a person's rank among those of its shadow, and all are pooled. The advantage is the share of members called members
minus that of absent people; signal and threshold are chosen on one half of the people and measured on the other, both
ways round.

What gates is the upper bound of the advantage, at most 1/k + 1/4 (docs/threat-model.md, "Limits, and why"). A person is
one of k behind a profile, so up to 1/k of a profile is their own; a quarter is what the fewest absent people that are
accepted leave open. An owner can set a lower threshold, not a higher one.

Which knowledge gates follows from what is published:

- every group has every item: 4, 8 and 16 known ratings, and everything the person rated;
- every record is one person's: the same. There is no crowd in which the person could be;
- a group has exactly what its members rated: 4 known ratings. Everything a member rated then lies in one group
  ([Chang2009], definition 3.1), so the more is known the clearer it is, whatever k: k-anonymity promises that it cannot
  be inferred *which* of k people a person is, not whether they are one of them. The rest is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from checks.about import About
from checks.attacks.scoreboard_rh import rule as scoreboard
from checks.evidence.case import Case
from checks.evidence.views.raw import is_raw, raw_view
from checks.evidence.views.shadow import can_spare
from checks.linkage.absent_people import ShadowDraw, shadow_draws
from checks.linkage.drawn_knowledge import knowledge_of
from checks.linkage.knowledge import Model
from checks.linkage.membership_signals import SIGNALS as RECORD_SIGNALS
from checks.linkage.membership_signals import measure_signals
from checks.linkage.postings import postings_of
from checks.linkage.rules import world_of
from checks.linkage.whitened_signals import SIGNALS as WHITENED_SIGNALS
from checks.linkage.whitened_signals import measure_whitened_signals
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, difference
from tasks.errors import Refused

FEW_KNOWN = (Model(4),)
MORE_KNOWN = (Model(8), Model(16), Model(0, "all"))
CONTROL = Model(16)
SIGNALS = (*RECORD_SIGNALS, *WHITENED_SIGNALS)
OPEN_SHARE = 0.25  # allowed beyond 1/k
MIN_RAW_ADVANTAGE = 0.5  # advantage that the control must reach on the raw data
FEWEST_ABSENT = 10  # with fewer people no threshold can be learned
HEAVY_SHARES = {0.1: "top tenth", 1 / 3: "top third"}  # the second where the first has too few absent people


@dataclass(frozen=True)
class Guess:
    """Hold how often members and absent people were called members, by which signals, and the area under the curve of
    these signals for all people and for heavy raters (`heavy` says which)."""

    model: Model
    members: int
    called: int
    absent: int
    called_absent: int
    sign: str
    auc: float
    heavy: str
    heavy_auc: float

    @property
    def trials(self) -> int:
        """Number of people the attacker guessed about."""
        return self.members + self.absent

    @property
    def advantage(self) -> float:
        """Share of members called members minus the share of absent people called members."""
        return self.called / self.members - self.called_absent / self.absent

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the advantage."""
        return difference((self.called, self.members), (self.called_absent, self.absent))

    def outcome(self) -> Outcome:
        """Return the result as a line of `murmur attack`; the baseline is the share of absent people called members."""
        low, high = self.interval
        more: dict[str, Any] = {"advantage": self.advantage, "advantage_low": low, "advantage_high": high}
        more |= {"auc": self.auc, "heavy": self.heavy, "heavy_auc": self.heavy_auc}
        more |= {"sign": self.sign, "absent": self.absent}
        return Outcome(
            self.model.name, Risk(self.called, self.members, self.called_absent / self.absent), more=more
        )

    def __str__(self) -> str:
        return (
            f"{self.model.name}: {self.advantage:+.2f} (AUC {self.auc:.2f}, {self.heavy} of raters "
            f"{self.heavy_auc:.2f}, by {self.sign})"
        )


@check(
    "membership-inference",
    threshold=0.75,
    controlled=True,
    about=About(
        title="Membership inference",
        summary="Infer whether a person is in the data at all",
        knows="The attacker knows some or all of a person's ratings.",
        tries=(
            "They measure how well the best record fits and answer that the person is in the data where it fits "
            "well. It is tried on people whom a release was made without."
        ),
        means=(
            "0 % is a coin and 100 % is certainty. Above the limit, being in the data could be inferred with more "
            "confidence than one of k members and the size of the test explain."
        ),
        measure="advantage in distinguishing members from absent people",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest advantage in distinguishing members of the shadow release from people it was made without."""
    allowed = min(threshold, 1 / case.release.k + OPEN_SHARE)
    draws = shadow_draws(case)
    left_out = sum(len(draw.absent) for draw in draws)
    if left_out < FEWEST_ABSENT:
        return _too_few_absent(case, left_out)
    tried = [guess(draws, model) for model in (*FEW_KNOWN, *MORE_KNOWN)]
    all_gate = case.single or case.release.complete
    gating, reported = (tried, []) if all_gate else (tried[: len(FEW_KNOWN)], tried[len(FEW_KNOWN) :])
    worst = max(gating, key=lambda g: g.interval[1])
    low, high = worst.interval
    control = guess(shadow_draws(raw_view(case)), CONTROL)
    releases = f"{len(draws)} releases like this were" if len(draws) > 1 else "a release like this was"
    more = (
        f" Reported, not gated, since groups list what their members rated: {'; '.join(map(str, reported))}."
        if reported
        else ""
    )
    return Finding(
        high <= allowed + 1e-9,
        worst.advantage,
        sum(g.trials for g in tried),
        f"members against {worst.absent:,} people whom {releases} made without: advantage "
        f"{worst.advantage:+.3f} (at most {high:.3f}, allowed {allowed:.3f}) knowing {worst.model.name}. By what is "
        f"known: {'; '.join(map(str, gating))}.{more} Control, raw data: {control}.",
        ci_low=low,
        ci_high=high,
        control=control.advantage >= MIN_RAW_ADVANTAGE,
        control_share=control.advantage,
        planned=len(tried) * (sum(len(draw.members) for draw in draws) + left_out),
        threshold=allowed,
        outcomes=tuple(g.outcome() for g in tried),
    )


def _too_few_absent(case: Case, left_out: int) -> Finding:
    """Return a finding without trial for small data; refuse where people could have been left out and were not."""
    if can_spare(case) or (
        case.single and not is_raw(case)
    ):  # single records must show that they hide people
        raise Refused(
            f"the shadow release was made without {left_out} people, too few to distinguish members from absent people",
            remedy="run the release anew; its evaluate step makes the shadow",
        )
    return Finding(
        True,
        None,
        0,
        f"of {case.truth.users:,} people whose groups are judged {left_out} could be left out of the shadow "
        f"run; the attack needs at least {FEWEST_ABSENT}.",
        control=True,
        outcomes=(Outcome("not tried", Risk(0, 0)),),
        applicable=False,
    )


def guess(draws: list[ShadowDraw], model: Model) -> Guess:
    """Attack the members and the absent people of all shadows with one kind of knowledge."""
    pairs = [_sides(draw, model) for draw in draws]
    sides = [_Side.pooled(parts) for parts in zip(*pairs, strict=True)]
    share, heavy = next(
        ((share, words) for share, words in HEAVY_SHARES.items() if share * len(sides[1]) >= FEWEST_ABSENT),
        list(HEAVY_SHARES.items())[-1],
    )
    draw = draws[0].shadow.draw("membership halves")
    halves = list(zip(*(side.halves(draw) for side in sides), strict=True))
    called, signs, areas, heavy_areas = np.zeros(2, np.int64), [], [], []
    for learn, test in (halves, halves[::-1]):
        sign, threshold = best_threshold(*(side.signals for side in learn))
        called += [int((side.signals[:, sign] >= threshold).sum()) for side in test]
        signs.append(SIGNALS[sign])
        areas.append(area_under_curve(*(side.signals[:, sign] for side in test)))
        heavy_areas.append(area_under_curve(*(side.heaviest(share)[:, sign] for side in test)))
    return Guess(
        model, len(sides[0]), int(called[0]), len(sides[1]), int(called[1]), " and ".join(dict.fromkeys(signs)),
        float(np.mean(areas)), heavy, float(np.mean(heavy_areas)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Side:
    """Hold the signals of members or of absent people, a row each, and how many ratings each person gave."""

    signals: np.ndarray
    rated: np.ndarray

    @classmethod
    def pooled(cls, parts: "Sequence[_Side]") -> "_Side":
        """Put the people of several shadows together."""
        return cls(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("signals", "rated"))
        )

    def __len__(self) -> int:
        return len(self.signals)

    def halves(self, draw: np.random.Generator) -> "list[_Side]":
        """Split the people at random."""
        parts = np.array_split(draw.permutation(len(self)), 2)
        return [_Side(self.signals[part], self.rated[part]) for part in parts]

    def heaviest(self, share: float) -> np.ndarray:
        """Return the signals of those with the most ratings: this share of the people."""
        return self.signals[self.rated >= np.quantile(self.rated, 1 - share)]


def _sides(draw: ShadowDraw, model: Model) -> tuple[_Side, _Side]:
    """Measure the signals of the members and the absent people of one shadow, as ranks among them all.

    Values of two shadows cannot be compared, their scales differ; ranks within one can. For a single shadow nothing
    changes: only the order counts.
    """
    people = np.concatenate([draw.members, draw.absent])
    ranks = rankdata(_signals(draw.shadow, people, model), axis=0) / len(people)
    rated = np.diff(draw.shadow.truth.ratings.indptr)[people]
    members = len(draw.members)
    return _Side(ranks[:members], rated[:members]), _Side(ranks[members:], rated[members:])


def _signals(shadow: Case, people: np.ndarray, model: Model) -> np.ndarray:
    knows = knowledge_of(shadow, people, model)
    rule = scoreboard(world_of(shadow))
    by_record = measure_signals(postings_of(shadow), rule, shadow.item_means, knows, shadow.engine)
    return np.hstack([by_record, measure_whitened_signals(shadow, knows)])


def best_threshold(members: np.ndarray, absent: np.ndarray) -> tuple[int, float]:
    """Return the signal (column) and the value from which calling a person a member has the largest advantage."""
    best, chosen = -np.inf, (0, np.inf)
    for sign in range(members.shape[1]):
        values = np.unique(np.concatenate([members[:, sign], absent[:, sign]]))
        below = (
            np.searchsorted(np.sort(side[:, sign]), values) / max(1, len(side)) for side in (members, absent)
        )
        members_below, absent_below = below
        at = int((absent_below - members_below).argmax())
        if absent_below[at] - members_below[at] > best:
            best, chosen = absent_below[at] - members_below[at], (sign, float(values[at]))
    return chosen


def area_under_curve(members: np.ndarray, absent: np.ndarray) -> float:
    """Return the chance that a member has more of a signal than an absent person, ties counting half."""
    ranks = rankdata(np.concatenate([members, absent]))[: len(members)]
    pairs = len(members) * len(absent)
    return float((ranks.sum() - len(members) * (len(members) + 1) / 2) / pairs) if pairs else 0.5
