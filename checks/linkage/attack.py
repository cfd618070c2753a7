"""From ranks to a check: one attack on the release, on the raw data, and on people who are not there.

`@attack` in a file of checks/attacks turns a rule into a check that gates at once:

- user-level risk = chance of naming the target (group hit ÷ people in it); its upper bound must not exceed 1/k;
- nobody's rank, counted in people at the worst of a tie, may be below k where groups are published;
- positive control: the same attack must break the raw data (or, where these resist it, find planted items);
- negative control: it must not "find" people whose record was taken away;
- baseline: what it seems to find of people the release was made without (checks/linkage/absent.py), subtracted in
  the residual risk. It does not gate: the risk itself must keep below 1/k.
"""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from checks.case import Case
from checks.linkage.absent import absent_risk
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.planted import FOUND, knowing_it, planted
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import Rule, World
from checks.raw import RawRelease
from checks.registry import check
from checks.result import TOPS, Finding, Outcome
from checks.stats import Risk, beyond_chance
from tasks.errors import Refused

BROKEN = 0.5  # share of the control's targets that must be found in the raw data
ECCENTRICITY = 1.5  # Narayanan & Shmatikov: how far the best must stand out before they claim a match

RuleOf = Callable[[World], Rule]


@dataclass(frozen=True)
class Trial:
    """One attack with one kind of knowledge on one case."""

    model: Model
    knowledge: Knowledge
    ranks: Ranks
    ceiling: float
    baseline: float = math.nan  # not measured

    @property
    def risk(self) -> Risk:
        """User-level risk with its interval."""
        return Risk(float(self.ranks.identification.sum()), len(self.ranks), self.baseline, self.ceiling)

    def below(self, k: int) -> int:
        """Targets who are among the first k − 1 people."""
        return int((self.ranks.user_rank < k).sum())

    def outcome(self) -> Outcome:
        """As a line of `murmur attack`."""
        claimed = self.ranks.eccentricity >= ECCENTRICITY
        right = claimed & (self.ranks.top > 0)
        more = (
            {"claimed": float(claimed.mean()), "claimed_right": float(right.mean())} if len(claimed) else {}
        )
        if self.ranks.entropy_bits.any():
            more["own_probability"] = float(self.ranks.own_probability.mean())
            more["entropy_bits"] = float(self.ranks.entropy_bits.mean())
        return Outcome(
            self.model.name, self.risk, _tops(self.ranks.user_rank), _tops(self.ranks.group_rank), more
        )


def promise(case: Case, allowed: float) -> str:
    """What is allowed; the raw data promise nothing."""
    return "" if isinstance(case.release, RawRelease) else f", allowed 1/k = {allowed:.4f}"


def _tops(ranks: np.ndarray) -> dict[int, float]:
    return {top: float((ranks <= top).mean()) if len(ranks) else 0.0 for top in TOPS}


def attack(
    name: str, *, models: tuple[Model, ...], control: Model, entropic: bool = False
) -> Callable[[RuleOf], RuleOf]:
    """Register the decorated `rule(world) -> Rule` as an attack that gates; `control` is what it is known to
    break raw data with."""

    def register(rule_of: RuleOf) -> RuleOf:
        def run(case: Case, threshold: float) -> Finding:
            return _judge(case, threshold, rule_of, models, control, entropic)

        run.__module__, run.__doc__ = rule_of.__module__, rule_of.__doc__
        check(name, threshold=1.0, controlled=True)(run)
        return rule_of

    return register


def trial(
    case: Case,
    rule_of: RuleOf,
    model: Model,
    *,
    targets: np.ndarray | None = None,
    entropic: bool = False,
) -> Trial:
    """Attack the people of a case: these, or those the case chooses."""
    if targets is None:
        targets = case.targets("knowledge", heavy=model.choice == "forum")
    knows = case.known(targets, model)
    ranks = rank(
        case.postings,
        rule_of(case.world),
        knows,
        case.record_of(targets),
        entropic=entropic,
        engine=case.engine,
    )
    return Trial(model, knows, ranks, case.ceiling)


def _judge(
    case: Case, threshold: float, rule_of: RuleOf, models: tuple[Model, ...], control: Model, entropic: bool
) -> Finding:
    allowed = min(threshold, 1 / case.release.k)
    usable = [model for model in models if not model.days or case.release.dated]
    trials = [
        replace(trial(case, rule_of, model, entropic=entropic), baseline=_baseline(case, rule_of, model))
        for model in usable
    ]
    worst = max(trials, key=lambda t: t.risk.interval[1])
    low, high = worst.risk.interval
    below = 0 if case.single else max(t.below(case.release.k) for t in trials)
    alive, said = control_of(case.raw, rule_of, control)
    within = "" if case.single else f"{below:,} targets are within the first {case.release.k - 1} people. "
    if case.release.complete and rule_of(case.world).kind == "presence":
        within += "Every group has every item, so which items are known tells nothing here. "
    groups = "; ".join(f"{t.model.name}: {_tops(t.ranks.group_rank)[1]:.1%}" for t in trials)
    return Finding(
        high <= allowed + 1e-9 and below == 0,
        worst.risk.rate,
        sum(len(t.ranks) for t in trials),
        f"best chance of naming a target {worst.risk.rate:.4f} (at most {high:.4f}) knowing {worst.model.name}"
        f"{promise(case, allowed)}. {within}"
        f"The right {'record' if case.single else 'group'} comes first for: {groups}. Control, {control.name}: {said}.",
        ci_low=low,
        ci_high=high,
        control=alive,
        planned=sum(len(case.targets("knowledge", heavy=model.choice == "forum")) for model in usable),
        threshold=allowed,
        outcomes=tuple(t.outcome() for t in trials),
    )


def control_of(raw: Case, rule_of: RuleOf, model: Model) -> tuple[bool, str]:
    """Does the attack break the raw data, or, where those resist it, find people by an item of their own? And does it
    leave people alone whose record was taken away?"""
    broken = trial(raw, rule_of, model, targets=raw.control_targets(heavy=model.choice == "forum"))
    strangers, expected = _strangers(raw, rule_of, model)
    quiet = not beyond_chance(strangers, len(broken.ranks), expected)
    said = (
        f"finds {broken.risk.rate:.1%} in the raw data, {strangers:,} of {len(broken.ranks):,} whose record was "
        f"taken away (by chance {expected * len(broken.ranks):.1f})"
    )
    if broken.risk.rate >= BROKEN:
        return quiet, said
    more, targets = planted(raw, broken.knowledge.targets)
    with contextlib.closing(more):
        found = trial(more, rule_of, knowing_it(model), targets=targets)
    among = "" if more.truth.users == raw.truth.users else f" among {more.truth.users:,} people"
    said += f"; as these data resist it, one planted item of their own{among}: finds {found.risk.rate:.1%}"
    return quiet and found.risk.rate >= FOUND, said


def _baseline(case: Case, rule_of: RuleOf, model: Model) -> float:
    """What the attack seems to find of people the release was made without; not a number where there is no such
    shadow (membership-inference then fails for want of it)."""
    try:
        absent = absent_risk(case, rule_of(case.world), model)
    except Refused:
        return math.nan
    return absent.rate if absent else math.nan


def _strangers(raw: Case, rule_of: RuleOf, model: Model) -> tuple[int, float]:
    """The control's targets without their own record: how many are taken for a record drawn at random, and
    the share of them that chance explains."""
    targets = raw.control_targets(heavy=model.choice == "forum")
    knows = raw.known(targets, model)
    own = raw.record_of(targets)
    somebody = raw.draw("strangers").integers(0, max(1, raw.postings.records - 1), len(targets))
    somebody += somebody >= own  # anybody but the target
    ranks = rank(raw.postings, rule_of(raw.world), knows, somebody, leave_out=own, engine=raw.engine)
    return int((ranks.identification == 1).sum()), 1 / max(1, raw.postings.records - 1)
