"""Infer membership: was this person in the data at all?

The attacker measures how well the best record fits what they know (checks/linkage/membership_signals.py) and answers
"member" above a threshold. A release contains every person, so the attack runs on the shadow release
(checks/evidence/views/shadow.py): members against people it was made without. The advantage is the share of members
called members minus that of absent people; signal and threshold are chosen on one half of the people and measured on
the other, both ways round.

What gates is the upper bound of the advantage. k-anonymity promises that it cannot be inferred *which* of k people a
person is, not whether they are one of them. Where a group has exactly what its members rated, everything a member rated
lies in one group ([Chang2009], definition 3.1): the more is known, the clearer it is, whatever k. There only knowledge
of a few ratings gates, and the rest is reported. Where every group has every item, and where a record is one person's,
8 and 16 known ratings gate too. Knowledge of everything a person rated never does.

The threshold distinguishes groups from single records, no more. Measured advantages knowing 4 / 8 / 16 / everything:

    MovieLens, k = 5              100K                       1M
    padded                  .02 / .14 / .10 / .31      −.01 / −.05 / .01 / .14
    simple                  .06 / .31 / .35 / .76       .02 / .11 / .23 / .86
    raw, names removed      .94 / 1.0 / 1.0 / 1.0       .72 / 1.0 / 1.0 / 1.0
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from checks.attacks.scoreboard_rh import rule as scoreboard
from checks.evidence.case import Case
from checks.evidence.views.raw import is_raw, raw_view
from checks.evidence.views.shadow import absent_people, can_spare
from checks.linkage.absent_people import shadow_of
from checks.linkage.drawn_knowledge import knowledge_of
from checks.linkage.knowledge import Model
from checks.linkage.membership_signals import SIGNALS, measure_signals
from checks.linkage.postings import postings_of
from checks.linkage.rules import world_of
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, difference
from tasks.errors import Refused

FEW_KNOWN = (Model(4),)
MANY_KNOWN = (Model(8), Model(16))
EVERYTHING = (Model(0, "all"),)
CONTROL = Model(16)
MIN_RAW_ADVANTAGE = 0.5  # advantage that the control must reach on the raw data
FEWEST_ABSENT = 10  # with fewer people no threshold can be learned


@dataclass(frozen=True)
class Guess:
    """Hold how often members and absent people were called members, and the area under the curve of the best signal."""

    model: Model
    members: int
    called: int
    absent: int
    called_absent: int
    sign: str
    auc: float

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
        more = {"advantage": self.advantage, "advantage_low": low, "advantage_high": high}
        risk = Risk(self.called, self.members, self.called_absent / self.absent)
        return Outcome(
            self.model.name, risk, more={**more, "auc": self.auc, "sign": self.sign, "absent": self.absent}
        )

    def __str__(self) -> str:
        return f"{self.model.name}: {self.advantage:+.2f} (AUC {self.auc:.2f} by {self.sign})"


@check("membership-inference", threshold=0.75, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest advantage in distinguishing members of the shadow release from people it was made without."""
    shadow = shadow_of(case)
    left_out = len(absent_people(shadow))
    if left_out < FEWEST_ABSENT:
        return _too_few_absent(case, left_out)
    tried = [guess(shadow, model) for model in (*FEW_KNOWN, *MANY_KNOWN, *EVERYTHING)]
    count = len(FEW_KNOWN) + (len(MANY_KNOWN) if case.single or case.release.complete else 0)
    gating, reported = tried[:count], tried[count:]
    worst = max(gating, key=lambda g: g.interval[1])
    low, high = worst.interval
    control = guess(shadow_of(raw_view(case)), CONTROL)
    return Finding(
        high <= threshold,
        worst.advantage,
        sum(g.trials for g in tried),
        f"members against {worst.absent:,} people a release like this was made without: advantage "
        f"{worst.advantage:+.3f} (at most {high:.3f}) knowing {worst.model.name}. By what is known: "
        f"{'; '.join(map(str, gating))}. Reported, not gated: {'; '.join(map(str, reported))}. "
        f"Control, raw data: {control}.",
        ci_low=low,
        ci_high=high,
        control=control.advantage >= MIN_RAW_ADVANTAGE,
        planned=len(tried) * (len(shadow.targets("membership")) + left_out),
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
        f"with {case.truth.users:,} people in the source {left_out} could be left out of the shadow "
        f"run; the attack needs at least {FEWEST_ABSENT}.",
        control=True,
        outcomes=(Outcome("not tried", Risk(0, 0)),),
        applicable=False,
    )


def guess(shadow: Case, model: Model) -> Guess:
    """Attack the members and the absent people of a shadow with one kind of knowledge."""
    members, absent = (
        _signals(shadow, people, model) for people in (shadow.targets("membership"), absent_people(shadow))
    )
    draw = shadow.draw("membership halves")
    halves = list(
        zip(
            *(np.array_split(side[draw.permutation(len(side))], 2) for side in (members, absent)), strict=True
        )
    )
    called = called_absent = 0
    for (learn, learn_absent), (test, test_absent) in (halves, halves[::-1]):
        sign, threshold = best_threshold(learn, learn_absent)
        called += int((test[:, sign] >= threshold).sum())
        called_absent += int((test_absent[:, sign] >= threshold).sum())
    areas = [area_under_curve(members[:, sign], absent[:, sign]) for sign in range(len(SIGNALS))]
    best = int(np.argmax(areas))
    return Guess(model, len(members), called, len(absent), called_absent, SIGNALS[best], areas[best])


def _signals(shadow: Case, people: np.ndarray, model: Model) -> np.ndarray:
    knows = knowledge_of(shadow, people, model)
    rule = scoreboard(world_of(shadow))
    return measure_signals(postings_of(shadow), rule, shadow.item_means, knows, shadow.engine)


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
