"""Run schedules: a seed decides who does what, who goes on when, and where it crashes.

A schedule has up to four boots. After a crash the machine starts again and whoever is not done begins again, with or
without a recovery before; the last boot has no crash. At the end the power may fail once more. Then everything must be
as it should be.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, field

from tasks.series.ledger import Ledger
from tests.simulation.baton import Baton, Crash, Process
from tests.simulation.invariants import Violation, Watcher, final_problems
from tests.simulation.jobs import draw_jobs
from tests.simulation.machine import Image, Machine
from tests.simulation.population import FEBRUARY, JANUARY, Job, Series, Wishes, recovered
from tests.simulation.rows import BUDGET, Rows
from tests.tasks.series.small_series import POPULATION, people

MOST_CRASHES = 3
STEPS_OF_A_JOB, WEIGHTY_STEPS_OF_A_JOB = 450, 100  # about; a crash is drawn among so many


@dataclass
class Outcome:
    """Hold what happened in a schedule; `problem` None: everything that must hold held."""

    seed: int
    problem: str | None
    steps: int = 0
    crashes: dict[str, int] = field(default_factory=dict)
    releases: int = 0
    trace: list[tuple[object, ...]] = field(default_factory=list)


class Simulator:
    """Hold a machine and the states in which schedules begin."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.series = Series()
        self.images: list[tuple[Image, Watcher]] = []

    def prepare(self) -> None:
        """Make the states: nothing was published yet; one release; two, and one of synthetic rows.

        Call it once, inside `simulated`."""
        machine = self.machine
        watcher = Watcher(machine)
        machine.observers = [watcher]
        self.series.open()
        machine.disk.settle_all()
        self._keep(watcher)
        for snapshot, newcomers in ((JANUARY, people(0, 6)), (FEBRUARY, people(6, 3))):
            series = self.series.at(snapshot)
            series.make(snapshot, newcomers)
            series.put(snapshot)
            if snapshot == FEBRUARY:  # the budget pays for one more
                Rows(JANUARY).publish(JANUARY, BUDGET)
            machine.disk.settle_all()
            self._keep(watcher)

    def _keep(self, watcher: Watcher) -> None:
        self.images.append((self.machine.image(), Watcher(self.machine, dict(watcher.seen))))

    def run(self, seed: int, only: str | None = None, crash: Crash | None = None) -> Outcome:
        """Run one schedule; with `only` one job works alone, and the first crash comes where `crash` says."""
        rng = random.Random(seed)
        image, before = rng.choices(self.images, (1, 3, 1))[0]
        watcher = Watcher(self.machine, dict(before.seen))
        self.machine.observers = []
        switch_share = rng.choice((0.01, 0.1, 0.5))
        wishes = Wishes(self.series, [])
        self.machine.reset(image, rng, Baton(rng, None, switch_share))
        self.machine.observers = [watcher]
        jobs = draw_jobs(rng, wishes, only)
        crashes = rng.choice((0, 1, 1, 1, 2, MOST_CRASHES)) if crash is None else 1
        outcome = Outcome(seed, None)
        try:
            for left in range(crashes, -1, -1):
                planned = None if left == 0 else crash or _draw_crash(rng, len(jobs))
                self._boot(rng, jobs, outcome, switch_share, planned)
            if crash is None and rng.random() < 0.5:  # whatever was done must stay done
                self.machine.boot(Baton(rng, None, 0.0))
                self.machine.lose_power(rng)
                recovered(self.series.store)
            found = final_problems(self.machine, watcher, wishes.erased)
            found += self._ledger_problems()
            outcome.problem = "; ".join(found) or None
        except Violation as violation:
            outcome.problem = str(violation)
        except AssertionError as problem:
            outcome.problem = f"{problem}"
        outcome.releases = len(watcher.seen)
        return outcome

    def _boot(
        self, rng: random.Random, jobs: list[Job], outcome: Outcome, switch_share: float, crash: Crash | None
    ) -> None:
        baton = Baton(rng, crash, switch_share)
        baton.trace = outcome.trace
        self.machine.boot(baton)
        if rng.random() < 0.3:
            recovered(self.series.store)
        processes = [Process(job.name, job.run) for job in jobs if not job.is_done]
        baton.run(processes)
        outcome.steps += baton.steps
        if crash and baton.has_crashed:
            outcome.crashes[crash.kind] = outcome.crashes.get(crash.kind, 0) + 1
        for process in processes:
            if process.error is not None:
                outcome.trace += [(line,) for line in traceback.format_exception(process.error)]
                raise AssertionError(
                    f"{process.name}: {type(process.error).__name__}: {process.error}"
                ) from process.error
        if crash and baton.has_crashed and crash.kind == "power":
            outcome.trace.append(("the power fails",))
            self.machine.lose_power(rng)

    def _ledger_problems(self) -> list[str]:
        """Return what the ledger's own verification finds."""
        if not Ledger.exists(self.series.store, POPULATION):
            return []
        with Ledger.open(self.series.store, POPULATION) as ledger:
            return ledger.problems(self.series.store)


def _draw_crash(rng: random.Random, jobs: int) -> Crash:
    weighty = rng.random() < 0.5
    last = (WEIGHTY_STEPS_OF_A_JOB if weighty else STEPS_OF_A_JOB) * jobs
    return Crash(rng.choice(("power", "power", "kill")), rng.randint(1, last), weighty)
