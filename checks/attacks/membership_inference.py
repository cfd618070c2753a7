"""Membership inference: was this person in the data at all?

The attacker looks at how well the best record fits what he knows (checks/linkage/presence.py) and says "member"
above a threshold. A release contains everybody, so it is tried on the shadow release (checks/shadow.py): members
against people it was made without. The advantage is the share of members called members minus that of absent people;
sign and threshold are chosen on one half of the people and measured on the other, both ways round.

What gates is the upper bound of the advantage. k-anonymity promises that nobody can tell *which* of k people somebody
is, not that nobody can tell whether they are one of them, and where a group has just what its members rated, everything
a member rated lies in one group (paper, definition 3.1): the more is known, the plainer it is, whatever k. There only
the few ratings somebody lets slip gate, and the rest is told. Where every group has every item, and where a record is
one person's, 8 and 16 known ratings gate too. Everything somebody rated never does.

The threshold tells groups from single records, no more. Measured advantages knowing 4 / 8 / 16 / everything:

    MovieLens, k = 5              100K                       1M
    padded                  .02 / .14 / .10 / .31      −.01 / −.05 / .01 / .14
    simple                  .06 / .31 / .35 / .76       .02 / .11 / .23 / .86
    raw, names removed      .94 / 1.0 / 1.0 / 1.0       .72 / 1.0 / 1.0 / 1.0
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from checks.attacks.scoreboard_rh import rule as scoreboard
from checks.case import Case
from checks.linkage.knowledge import Model
from checks.linkage.presence import SIGNS, presence
from checks.registry import check
from checks.result import Finding, Outcome
from checks.shadow import absent_people, can_spare
from checks.stats import Risk, difference
from tasks.errors import Refused

LET_SLIP = (Model(4),)
MUCH = (Model(8), Model(16))
EVERYTHING = (Model(0, "all"),)
CONTROL = Model(16)
CLEARLY = 0.5  # advantage the control must have on the raw data
FEWEST_ABSENT = 10  # of fewer people nothing can be learned


@dataclass(frozen=True)
class Guess:
    """How often members and absent people were called members, and the area under the curve of the best sign."""

    model: Model
    members: int
    called: int
    absent: int
    called_absent: int
    sign: str
    auc: float

    @property
    def trials(self) -> int:
        """People the attacker guessed about."""
        return self.members + self.absent

    @property
    def advantage(self) -> float:
        """Share of members called members minus the share of absent people."""
        return self.called / self.members - self.called_absent / self.absent

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the advantage."""
        return difference((self.called, self.members), (self.called_absent, self.absent))

    def outcome(self) -> Outcome:
        """As a line of `murmur attack`: the baseline is what absent people are called."""
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
    """Largest advantage in telling members of the shadow release from people it was made without."""
    shadow = case.shadow
    left_out = len(absent_people(shadow))
    if left_out < FEWEST_ABSENT:
        return _not_tried(case, left_out)
    tried = [guess(shadow, model) for model in (*LET_SLIP, *MUCH, *EVERYTHING)]
    count = len(LET_SLIP) + (len(MUCH) if case.single or case.release.complete else 0)
    gating, told = tried[:count], tried[count:]
    worst = max(gating, key=lambda g: g.interval[1])
    low, high = worst.interval
    control = guess(case.raw.shadow, CONTROL)
    return Finding(
        high <= threshold,
        worst.advantage,
        sum(g.trials for g in tried),
        f"members against {worst.absent:,} people a release like this was made without: advantage "
        f"{worst.advantage:+.3f} (at most {high:.3f}) knowing {worst.model.name}. By what is known: "
        f"{'; '.join(map(str, gating))}. Told, not gated: {'; '.join(map(str, told))}. "
        f"Control, raw data: {control}.",
        ci_low=low,
        ci_high=high,
        control=control.advantage >= CLEARLY,
        planned=len(tried) * (len(shadow.targets("membership")) + left_out),
        outcomes=tuple(g.outcome() for g in tried),
    )


def _not_tried(case: Case, left_out: int) -> Finding:
    """Small data spare nobody; but where people could be left out, a shadow without absent people is no shadow."""
    if can_spare(case) or (
        case.single and case is not case.raw
    ):  # single records must show that they hide people
        raise Refused(
            f"the shadow release was made without {left_out} people, too few to tell members from absent people",
            remedy="run the release anew; its evaluate step makes the shadow",
        )
    return Finding(
        True,
        None,
        0,
        f"not tried: in data of {case.truth.users:,} people {left_out} could be left out of the shadow run, "
        f"of whom nothing can be learned.",
        control=True,
        outcomes=(Outcome("not tried", Risk(0, 0)),),
    )


def guess(shadow: Case, model: Model) -> Guess:
    """Attack the members and the absent people of a shadow with one kind of knowledge."""
    members, absent = (
        _signs(shadow, people, model) for people in (shadow.targets("membership"), absent_people(shadow))
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
    areas = [area_under_curve(members[:, sign], absent[:, sign]) for sign in range(len(SIGNS))]
    best = int(np.argmax(areas))
    return Guess(model, len(members), called, len(absent), called_absent, SIGNS[best], areas[best])


def _signs(shadow: Case, people: np.ndarray, model: Model) -> np.ndarray:
    knows = shadow.known(people, model)
    return presence(shadow.postings, scoreboard(shadow.world), shadow.item_means, knows, shadow.engine)


def best_threshold(members: np.ndarray, absent: np.ndarray) -> tuple[int, float]:
    """The sign (column) and the value from which on calling somebody a member has the largest advantage."""
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
    """Chance that a member shows more of a sign than an absent person, ties counting half."""
    ranks = rankdata(np.concatenate([members, absent]))[: len(members)]
    pairs = len(members) * len(absent)
    return float((ranks.sum() - len(members) * (len(members) + 1) / 2) / pairs) if pairs else 0.5
