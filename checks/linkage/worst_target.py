"""Attacks that leave a set of equally likely people: what the least protected target has to fear.

Where groups are published, nobody at all may be told from fewer than k people (paper theorem 6.1), so the worst
target counts. Methods that publish single people cannot promise that; they are judged by the average chance.
"""

from dataclasses import replace

from checks.case import Case
from checks.linkage.attack import Trial, promise
from checks.result import Finding


def judge(
    case: Case,
    threshold: float,
    trials: dict[str, Trial],
    said: str,
    *,
    planned: int,
    control: tuple[bool, str],
) -> Finding:
    """Largest chance of naming a target, over all kinds of knowledge, against 1/k."""
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
        f"{found}{promise(case, allowed)}. {said} Control: {control[1]}.",
        ci_low=low,
        ci_high=high,
        control=control[0],
        planned=planned,
        threshold=allowed,
        outcomes=tuple(replace(t.outcome(), knowledge=name) for name, t in trials.items()),
    )
