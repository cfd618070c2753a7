"""Describe what releases of synthetic rows spent of a privacy budget: by period, in all, and under which limits."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tasks.config import Budget
from tasks.series.budget import Total, period_of, total
from tasks.series.rows import SYNTHETIC, PublishedRelease, Spending, Spent

LIFETIME = "in all"
ALONE = (
    "All releases of this population that spend a budget are counted, withdrawn ones included. What other stores "
    "published about the same people is not known here."
)
BESIDE_GROUPS = (
    f"{ALONE} The releases of groups carry no epsilon: nothing bounds what they and the synthetic rows reveal together "
    "by one number. The synthetic rows add at most their epsilon to whatever the groups reveal."
)


def describe_spent(
    spent: Sequence[Spent], releases: Sequence[PublishedRelease], budget: Budget | None
) -> dict[str, Any] | None:
    """Return the sums by period and in all, and how the limits changed; None where nothing has a budget.

    `budget` is what the release file allows now; without it the limit of the newest release stands.
    """
    if not spent and budget is None:
        return None
    now = (budget.per, budget.epsilon, budget.delta) if budget else _limit(spent[-1].spending)
    per, epsilon, delta = now
    by_period: dict[str, list[Spending]] = {}
    for one in spent:
        name = f"{one.name} {one.snapshot}" if per == "release" else period_of(per, one.snapshot)
        by_period.setdefault(name, []).append(one.spending)
    grouped = any(one.mode != SYNTHETIC for one in releases)
    return {
        "periods": [_row(name, total(parts, delta), epsilon) for name, parts in by_period.items()],
        "lifetime": _row(LIFETIME, total([one.spending for one in spent], delta), None),
        "changes": [*_changes(spent, now)],
        "note": BESIDE_GROUPS if grouped else ALONE,
    }


def _row(period: str, spent: Total, limit: float | None) -> dict[str, Any]:
    """Return a sum; epsilon is null where the releases fail with a larger probability than delta."""
    epsilon = None if math.isinf(spent.epsilon) else spent.epsilon
    return {
        "period": period,
        "releases": spent.releases,
        "rho": spent.rho,
        "epsilon": epsilon,
        "delta": spent.delta,
        "limit": limit,
    }


def _limit(one: Spending) -> tuple[str, float, float]:
    return one.per, one.limit_epsilon, one.limit_delta


def _changes(spent: Sequence[Spent], now: tuple[str, float, float]) -> Iterator[str]:
    """Say from which release on another limit held: an owner may raise it, and not silently."""
    for before, after in pairwise(spent):
        if _limit(before.spending) != _limit(after.spending):
            old, new = _in_words(_limit(before.spending)), _in_words(_limit(after.spending))
            yield f"The limit was {old} until {after.name} {after.snapshot}, which was published under {new}."
    if spent and _limit(spent[-1].spending) != now:
        old = _in_words(_limit(spent[-1].spending))
        yield f"The limit was {old} when the newest release was published; the release file has {_in_words(now)}."


def _in_words(limit: tuple[str, float, float]) -> str:
    per, epsilon, delta = limit
    return f"epsilon = {epsilon:g}, delta = {delta:g} per {per}"
