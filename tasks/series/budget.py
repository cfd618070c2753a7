"""Account for what releases of synthetic rows spend of their population's privacy budget.

Every such release satisfies zero-concentrated differential privacy with some rho ([Bun2016]), except with a probability
`failure`. Both add up over releases; the sum of rho is converted to epsilon at what the sum of `failure` leaves of the
limit's delta. What is spent stays spent: a withdrawn release was public, and other settings change the
limit for coming releases, never the sum.
"""

import hashlib
import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

import sqlalchemy as sa

from tasks.config import Budget
from tasks.errors import Refused
from tasks.kernels.privacy_accounting import allowance, spent_epsilon
from tasks.series import schema
from tasks.series.rows import Spending, Spent

ROUNDING = 1e-9  # relative: equal shares of a limit do not add up to it exactly


def planned(budget: Budget) -> Spending:
    """Return what a release spends under a budget: an equal share, known before any data are touched."""
    share = allowance(budget.epsilon, budget.delta, budget.releases)
    alone = spent_epsilon(share.rho, share.failure, budget.delta)
    return Spending(share.rho, share.failure, alone, budget.delta, budget.per, budget.epsilon, budget.delta)


class Total(NamedTuple):
    """Hold what some releases spent together; `epsilon` at `delta` (infinite: they fail with a larger probability)."""

    releases: int
    rho: float
    failure: float
    epsilon: float
    delta: float


def total(spendings: Iterable[Spending], delta: float) -> Total:
    """Return what some releases spend together, at a delta for all of them."""
    parts = list(spendings)
    rho, failure = math.fsum(part.rho for part in parts), math.fsum(part.failure for part in parts)
    return Total(len(parts), rho, failure, spent_epsilon(rho, failure, delta), delta)


def period_of(per: str, snapshot: str) -> str:
    """Return the period that a snapshot belongs to: its calendar year, the population, or the release alone."""
    return snapshot[:4] if per == "year" else per


def same_period(spent: Iterable[Spent], per: str, snapshot: str) -> list[Spending]:
    """Return what was spent in the period of a snapshot, whatever the limits were under which it was spent."""
    if per == "release":
        return []
    return [one.spending for one in spent if per == "population" or one.snapshot[:4] == snapshot[:4]]


def require_within(spent: Collection[Spent], wanted: Spending, population: str, snapshot: str) -> None:
    """Refuse a release that would spend more than the limit leaves; nothing of it may have been read or published."""
    before = same_period(spent, wanted.per, snapshot)
    together = total([*before, wanted], wanted.limit_delta)
    if together.epsilon <= wanted.limit_epsilon * (1 + ROUNDING):
        return
    so_far = total(before, wanted.limit_delta)
    period = {"release": "", "year": f" in {snapshot[:4]}", "population": " in all"}[wanted.per]
    after = "more than any" if math.isinf(together.epsilon) else f"{together.epsilon:.4g}"
    raise Refused(
        f"the privacy budget does not suffice: {len(before)} release(s) of synthetic rows have spent epsilon = "
        f"{so_far.epsilon:.4g}{period}, and with this one it would be {after} (delta = {wanted.limit_delta:g}); "
        f"the limit is {wanted.limit_epsilon:g}",
        where=f"privacy.budget, population {population}, snapshot {snapshot}",
        remedy=_remedy(wanted.per),
    )


def _remedy(per: str) -> str:
    later = {"year": "publish a snapshot of another year, or ", "population": "", "release": ""}[per]
    return (
        f"{later}raise privacy.budget.epsilon, which promises people less from now on; what was spent cannot be taken "
        "back. `murmur ledger` shows it"
    )


def digest_of_tokens(tokens: Collection[bytes]) -> str:
    """Return what distinguishes one block-list from another."""
    return hashlib.sha256(b"".join(sorted(tokens))).hexdigest()


def read_spent(db: sa.Connection) -> list[Spent]:
    """Return what every release spent, in the order of publication."""
    b, r = schema.budget, schema.releases
    spending = [b.c[name] for name in Spending._fields]
    wanted = sa.select(r.c.id, r.c.name, r.c.snapshot, *spending).join(b, b.c.release_id == r.c.id)
    rows = db.execute(wanted.order_by(r.c.id))
    return [Spent(row[0], row[1], row[2], Spending(*row[3:])) for row in rows]
