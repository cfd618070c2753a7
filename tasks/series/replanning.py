"""Plan a release anew where another one of its population was published in the meantime."""

import datetime
import logging
from collections.abc import Callable
from typing import TypeVar

from tasks.config import ReleaseConfig
from tasks.errors import Refused
from tasks.series.cohort import SeriesParams
from tasks.series.cohort_ratings import planned_head
from tasks.series.ledger import Ledger
from tasks.store import Store

PLANS = 5  # a release is planned at most so often
T = TypeVar("T")

log = logging.getLogger("murmur")


def plan_anew(
    attempt: Callable[[], T],
    config: ReleaseConfig,
    snapshot: datetime.date,
    store: Store,
    *,
    plans: int = PLANS,
) -> T:
    """Make an attempt, and a further one where it was refused while the ledger moved: its plan was out of date.

    Other snapshots of a backfill may be published at any moment. Each attempt does all the work again, so their number
    is bounded.
    """
    for left in reversed(range(plans)):
        head = _head(config, snapshot, store)
        try:
            return attempt()
        except Refused:
            if not left or _head(config, snapshot, store) == head:
                raise
            log.info("%s %s: something was published meanwhile; planned anew", config.release.name, snapshot)
    raise AssertionError("the last attempt returns or raises")


def _head(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> str | None:
    """Return the state of the ledger that a snapshot is planned against; None: there is none."""
    params = SeriesParams.of(config)
    if params is None or not Ledger.exists(store, params.population):
        return None
    return planned_head(store, params, snapshot)
