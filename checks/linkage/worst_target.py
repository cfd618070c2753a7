"""Assess attacks that leave a set of equally likely people by the least protected target.

Where groups are published, no person may be narrowed down to fewer than k people ([Chang2009], theorem 6.1), so the
worst target counts. Methods that publish single people cannot promise that; they are judged by the average chance.
"""

from dataclasses import replace

from checks.evidence.case import Case
from checks.evidence.views.raw import allowed_text
from checks.linkage.attack import Control, Trial
from checks.result import Finding


def assess_worst_target(
    case: Case,
    threshold: float,
    trials: dict[str, Trial],
    summary: str,
    *,
    planned: int,
    control: Control,
    applicable: bool = True,
) -> Finding:
    """Compare the largest chance of naming a target, over all kinds of knowledge, with 1/k."""
    allowed = min(threshold, 1 / case.release.k)
    name, worst = max(trials.items(), key=lambda t: t[1].risk.interval[1])
    low: float | None
    high: float | None
    if case.single:
        low, high = worst.risk.interval
        observed, passed = worst.risk.rate, high <= allowed + 1e-9
        found = f"chance of naming a target {observed:.4f} on average (at most {high:.4f}), {name}"
    else:
        observed = max(float(t.ranks.identification.max(initial=0)) for t in trials.values())
        low = high = None
        passed = observed <= allowed + 1e-9
        found = f"best chance of naming any target {observed:.4f}"
    return Finding(
        passed,
        observed,
        sum(len(t.ranks) for t in trials.values()),
        f"{found}{allowed_text(case, allowed)}. {summary} Control: {control.words}.",
        ci_low=low,
        ci_high=high,
        control=control.works,
        control_share=control.share,
        planned=planned,
        threshold=allowed,
        outcomes=tuple(replace(t.outcome(), knowledge=name) for name, t in trials.items()),
        applicable=applicable and not case.keeps_by_construction(allowed),
    )
