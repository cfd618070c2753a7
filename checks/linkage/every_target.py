"""Attacks that leave a set of equally likely people: what the least protected target has to fear.

Where groups are published, nobody at all may be told from fewer than k people (paper theorem 6.1), so the worst
target counts. Methods that publish single people cannot promise that; they are judged by the average chance.
"""

from checks.case import Case
from checks.linkage.attack import Trial
from checks.result import Finding


def judge(case: Case, threshold: float, trials: list[Trial], said: str, *, planned: int) -> Finding:
    """Largest chance of naming a target, over all kinds of knowledge, against 1/k."""
    allowed = min(threshold, 1 / case.release.k)
    worst = max(trials, key=lambda t: t.risk.interval[1])
    low: float | None
    high: float | None
    if case.single:
        low, high = worst.risk.interval
        observed, passed = worst.risk.rate, high <= allowed + 1e-9
        found = (
            f"chance of naming a target {observed:.4f} on average (at most {high:.4f}), {worst.model.name}"
        )
    else:
        observed = max(float(t.ranks.identification.max(initial=0)) for t in trials)
        low = high = None
        passed = observed <= allowed + 1e-9
        found = f"best chance of naming any target {observed:.4f}"
    return Finding(
        passed,
        observed,
        sum(len(t.ranks) for t in trials),
        f"{found}, allowed 1/k = {allowed:.4f}. {said}",
        ci_low=low,
        ci_high=high,
        planned=planned,
        threshold=allowed,
        outcomes=tuple(t.outcome() for t in trials),
    )
