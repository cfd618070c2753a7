"""Publish synthetic rows on the simulated machine: a release of every month, and a budget for two of a year."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from tasks.config import Budget
from tasks.errors import Refused
from tasks.series.publication import recover
from tasks.series.rows import Spending
from tasks.series.spending import Payment, require_payable
from tasks.series.under_way import under_way
from tasks.store import Store, make_private, owner_only, remove
from tests.simulation.machine import STORE
from tests.simulation.population import ATTEMPTS, Job
from tests.tasks.series import made_synthetic, small_series

NAME = made_synthetic.NAME
BUDGET = Budget(epsilon=3.0, delta=1e-5, per="year", releases=2)
TOO_MUCH = "the privacy budget does not suffice"


class Rows(made_synthetic.SyntheticSeries):
    """Publish about the people of the other release; a candidate lies where the step `validate` leaves it."""

    population = small_series.POPULATION

    def __init__(self, snapshot: str) -> None:
        self.store = Store(STORE)
        self.scratch = self.private(snapshot) / "work" / "validate"

    def make(
        self,
        snapshot: str,
        budget: Budget = BUDGET,
        spends: Spending | None = None,
        blocked: str | None = None,
    ) -> None:
        with owner_only():
            super().make(snapshot, budget, spends, blocked)


def publish_rows(snapshots: Sequence[str]) -> Callable[[Job], None]:
    """Publish rows of these snapshots, as far as the budget pays for them."""

    def work(_: Job) -> None:
        for snapshot in snapshots:
            _publish(snapshot)

    return work


def _publish(snapshot: str) -> None:
    rows = Rows(snapshot)
    payment = Payment(population=rows.population, release=NAME, budget=BUDGET)
    for _attempt in range(ATTEMPTS):
        try:
            with under_way(rows.store, rows.population):
                make_private(rows.private(snapshot), below=rows.store.root)
                _run(rows, payment, snapshot)
            return
        except (Refused, OSError, ValueError) as problem:
            if TOO_MUCH in str(problem):
                return
            # Somebody was erased, or a crash has taken files of the candidate: it is made again.
            last = problem
            with under_way(rows.store, rows.population):
                remove(rows.scratch)
    raise last


def _run(rows: Rows, payment: Payment, snapshot: str) -> None:
    """Do what a run does: ask the budget, make a candidate where there is none, and publish it."""
    if any((rows.public(snapshot) / name).exists() for name in ("manifest.json", "tombstone.json")):
        recover(rows.store, rows.population)
        return
    require_payable(rows.store, payment, datetime.date.fromisoformat(snapshot))
    with rows.store.storage.lock(rows.private(snapshot) / ".validate.lock"):
        if not (rows.scratch / "step.json").exists():
            rows.make(snapshot)
    rows.put(snapshot)
