"""Turn ranks into a check: one attack on the release, on the raw data, and on people who are not in the release.

`@attack` in a file of checks/attacks registers a rule as a gating check:

- the user-level risk is the chance of naming the target (group hit ÷ people in the group); its upper bound must not
  exceed 1/k;
- where at least so many people share every profile, naming by the profile cannot exceed that, and the check is not
  applicable: k-anonymity shows it (`Case.keeps_by_construction`);
- where groups are published, no target's rank, counted in people at the worst of a tie, may be below k;
- positive control: the same attack must break the raw data (or, where these resist it, find planted items);
- negative control: it must not "find" people whose record was removed;
- baseline: what it seems to find of people the release was made without (checks/linkage/absent_people.py), subtracted
  in the residual risk. It does not gate: the risk itself must stay below 1/k.
"""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.raw import MIN_CONTROL_SHARE, allowed_text, raw_view
from checks.linkage.absent_people import absent_risk
from checks.linkage.drawn_knowledge import knowledge_of
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.planted_items import MIN_FOUND_SHARE, knowing_planted_item, with_planted_items
from checks.linkage.postings import postings_of
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import Rule, World, world_of
from checks.registry import check
from checks.result import TOPS, Finding, Outcome
from checks.stats import Risk, beyond_chance
from tasks.errors import Refused

ECCENTRICITY = 1.5  # [Narayanan2008]: how far the best must stand out before a match is claimed

RuleOf = Callable[[World], Rule]


@dataclass(frozen=True)
class Trial:
    """Hold the result of one attack with one kind of knowledge on one case."""

    model: Model
    knowledge: Knowledge
    ranks: Ranks
    ceiling: float
    baseline: float = math.nan  # not measured

    @property
    def risk(self) -> Risk:
        """The user-level risk with its interval."""
        return Risk(float(self.ranks.identification.sum()), len(self.ranks), self.baseline, self.ceiling)

    def count_below(self, k: int) -> int:
        """Count the targets who are among the first k − 1 people."""
        return int((self.ranks.user_rank < k).sum())

    def outcome(self) -> Outcome:
        """Return the result as a line of `murmur attack`."""
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


def _tops(ranks: np.ndarray) -> dict[int, float]:
    return {top: float((ranks <= top).mean()) if len(ranks) else 0.0 for top in TOPS}


def attack(
    name: str, *, models: tuple[Model, ...], control: Model, about: About, entropic: bool = False
) -> Callable[[RuleOf], RuleOf]:
    """Register the decorated `rule(world) -> Rule` as a gating attack.

    `control` is the knowledge with which the attack is known to break raw data.
    """

    def register(rule_of: RuleOf) -> RuleOf:
        def run(case: Case, threshold: float) -> Finding:
            return _judge(case, threshold, rule_of, models, control, entropic)

        run.__module__, run.__doc__ = rule_of.__module__, rule_of.__doc__
        check(name, threshold=1.0, about=about, controlled=True)(run)
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
    """Attack the people of a case: these targets, or those the case chooses."""
    if targets is None:
        targets = case.targets("knowledge", heavy=model.choice == "forum")
    knows = knowledge_of(case, targets, model)
    ranks = rank(
        postings_of(case),
        rule_of(world_of(case)),
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
    below = 0 if case.single else max(t.count_below(case.release.k) for t in trials)
    succeeded = run_control(raw_view(case), rule_of, control)
    within = "" if case.single else f"{below:,} targets are within the first {case.release.k - 1} people. "
    # All records then have the same score, whatever is known: every target ties with everybody.
    all_tie = case.release.complete and rule_of(world_of(case)).kind == "presence"
    if all_tie:
        within += "Every record holds every item, so the items of a record identify no one. "
    groups = "; ".join(f"{t.model.name}: {_tops(t.ranks.group_rank)[1]:.1%}" for t in trials)
    return Finding(
        high <= allowed + 1e-9 and below == 0,
        worst.risk.rate,
        sum(len(t.ranks) for t in trials),
        f"best chance of naming a target {worst.risk.rate:.4f} (at most {high:.4f}) knowing {worst.model.name}"
        f"{allowed_text(case, allowed)}. {within}"
        f"The right {'record' if case.single else 'group'} comes first for: {groups}. "
        f"Control, {control.name}: {succeeded.words}.",
        ci_low=low,
        ci_high=high,
        control=succeeded.works,
        control_share=succeeded.share,
        planned=sum(len(case.targets("knowledge", heavy=model.choice == "forum")) for model in usable),
        threshold=allowed,
        outcomes=tuple(t.outcome() for t in trials),
        applicable=not all_tie and not case.keeps_by_construction(allowed),
    )


class Control(NamedTuple):
    """Hold whether an attack works where it must, the words for it, and the share of people it names in raw data."""

    works: bool
    words: str
    share: float


def run_control(raw: Case, rule_of: RuleOf, model: Model) -> Control:
    """Test that the attack works: it breaks the raw data or, where these resist it, finds people by a planted item; and
    it does not find people whose record was removed. Return this and the words for it."""
    broken = trial(raw, rule_of, model, targets=raw.control_targets(heavy=model.choice == "forum"))
    strangers, expected = _match_strangers(raw, rule_of, model)
    removed_not_found = not beyond_chance(strangers, len(broken.ranks), expected)
    control_text = (
        f"finds {broken.risk.rate:.1%} in the raw data, {strangers:,} of {len(broken.ranks):,} whose record was "
        f"removed (by chance {expected * len(broken.ranks):.1f})"
    )
    if broken.risk.rate >= MIN_CONTROL_SHARE:
        return Control(removed_not_found, control_text, broken.risk.rate)
    more, targets = with_planted_items(raw, broken.knowledge.targets)
    with contextlib.closing(more):
        found = trial(more, rule_of, knowing_planted_item(model), targets=targets)
    among = "" if more.truth.users == raw.truth.users else f" among {more.truth.users:,} people"
    control_text += (
        f"; these data resist it, so with one planted item of their own{among} it finds {found.risk.rate:.1%}"
    )
    works = removed_not_found and found.risk.rate >= MIN_FOUND_SHARE
    return Control(works, control_text, broken.risk.rate)


def _baseline(case: Case, rule_of: RuleOf, model: Model) -> float:
    """Return the risk for people the release was made without; NaN where there is no such shadow (membership-inference
    then fails because it is missing)."""
    try:
        absent = absent_risk(case, rule_of(world_of(case)), model)
    except Refused:
        return math.nan
    return absent.rate if absent else math.nan


def _match_strangers(raw: Case, rule_of: RuleOf, model: Model) -> tuple[int, float]:
    """Attack the control's targets without their own record: return how many are matched to a record drawn at random,
    and the share that chance explains."""
    targets = raw.control_targets(heavy=model.choice == "forum")
    knows = knowledge_of(raw, targets, model)
    own = raw.record_of(targets)
    postings = postings_of(raw)
    other = raw.draw("strangers").integers(0, max(1, postings.records - 1), len(targets))
    other += other >= own  # any record but the target's
    ranks = rank(postings, rule_of(world_of(raw)), knows, other, leave_out=own, engine=raw.engine)
    return int((ranks.identification == 1).sum()), 1 / max(1, postings.records - 1)
