"""Hold the people of the simulation, what is published about them, and the processes that do it.

Releases have groups of three and four items, without any model: tests/tasks/series/small_series.py writes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tasks.errors import MurmurError, Refused
from tasks.series import erasure, withdrawal
from tasks.series.ledger import Ledger
from tasks.series.publication import exclusive, recover
from tasks.series.under_way import under_way
from tasks.store import Store, make_private, owner_only, remove
from tests.simulation.machine import STORE
from tests.tasks.series.small_series import NAME, POPULATION, K, SmallSeries

ATTEMPTS = 25
JANUARY, FEBRUARY, MARCH = "2026-01-01", "2026-02-01", "2026-03-01"
EARLIER = ("2025-11-01", "2025-12-01")


class Series(SmallSeries):
    """Publish on the simulated disk; a candidate lies where the step `validate` leaves it."""

    def __init__(self) -> None:
        self.store = Store(STORE)
        self._opened: Ledger | None = None

    def open(self) -> None:
        """Make the store and the owner's secret."""
        super().__init__(Path("/sim"))

    def at(self, snapshot: str) -> Series:
        """Return the same series with the place of one snapshot's candidate."""
        other = Series()
        other.key = self.key
        other.scratch = self.private(snapshot) / "work" / "validate"
        return other

    def make(self, snapshot: str, newcomers: Sequence[str], pool: int | None = None) -> None:
        with owner_only():  # as tasks/pipeline.py runs every step
            super().make(snapshot, newcomers, pool)

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Open the ledger; inside, it is the same one."""
        if self._opened is not None:
            yield self._opened
            return
        with super().ledger() as self._opened:
            try:
                yield self._opened
            finally:
                self._opened = None

    def _profile(self, group) -> bytes:
        return self._profiles[group.id]

    def _carried_people(self, ledger: Ledger) -> dict[int, list[str]]:
        self._profiles = profiles_of(self.store, ledger)
        return super()._carried_people(ledger)


def profiles_of(store: Store, ledger: Ledger) -> dict[int, bytes]:
    """Return the ratings of every live group, from the release that published it first."""
    import pyarrow.parquet as pq

    from tasks.series.carried import files_of

    first = {one.id: one for one in ledger.releases()}
    found = {}
    for group in ledger.groups():
        directory = files_of(store, first[group.release_id])
        if directory is None:
            raise LookupError("a release went while the next one was planned")
        found[group.id] = pq.read_table(directory / "groups.parquet").column("ratings")[group.place].as_py()
    return found


@dataclass
class Job:
    """Represent what somebody wants done; `work` may be run again after a crash until `is_done`."""

    name: str
    work: Callable[[Job], None]
    is_done: bool = False

    def run(self) -> None:
        self.work(self)
        self.is_done = True


@dataclass
class Wishes:
    """Hold who is to be released, and who was erased."""

    series: Series
    newcomers: list[str]
    erased: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)


def publisher(wishes: Wishes, snapshot: str, newcomers: Sequence[str]) -> Callable[[Job], None]:
    """Publish a snapshot with those of the newcomers whom the ledger does not know; plan anew when it has moved."""

    def work(_: Job) -> None:
        series = wishes.series.at(snapshot)
        for _attempt in range(ATTEMPTS):
            try:
                with under_way(series.store, POPULATION):
                    make_private(series.private(snapshot), below=series.store.root)
                    _publish(series, snapshot, newcomers)
                return
            except (Refused, OSError, ValueError, LookupError) as problem:
                # The ledger has moved, or a crash has taken files of the candidate: it is made again.
                last = problem
                with under_way(series.store, POPULATION), step_lock(series, snapshot):
                    remove(series.scratch)
        raise last

    return work


def _publish(series: Series, snapshot: str, newcomers: Sequence[str]) -> None:
    """Do what a run does: make a candidate where there is none, and publish it."""
    if any((series.public(snapshot) / name).exists() for name in ("manifest.json", "tombstone.json")):
        recover(series.store, POPULATION)  # as the step publish does before it compares
        return
    with step_lock(series, snapshot), series.ledger():
        if not (series.scratch / "step.json").exists():
            entering = enterable(series, newcomers)
            if not entering and nobody_is_released(series):
                return  # everybody was erased before anything was published
            series.make(snapshot, entering)
    series.put(snapshot)


def step_lock(series: Series, snapshot: str) -> contextlib.AbstractContextManager[object]:
    """Keep two runs of a step apart, as tasks/pipeline.py does."""
    return series.store.storage.lock(series.private(snapshot) / ".validate.lock")


def nobody_is_released(series: Series) -> bool:
    """Test whether there is no group that a release could offer."""
    with series.ledger() as ledger:
        return not ledger.groups()


def enterable(series: Series, newcomers: Sequence[str]) -> list[str]:
    """Return whole groups of people who may enter."""
    with series.ledger() as ledger:
        known = {*ledger.memberships()[0], *ledger.blocked()}
        tokens = ledger.tokens(newcomers)
    free = [one for one, token in zip(newcomers, tokens, strict=True) if token not in known]
    return free[: len(free) // K * K]


def backfill(wishes: Wishes, snapshots: Sequence[str], newcomers: Sequence[str]) -> Callable[[Job], None]:
    """Publish snapshots one after the other."""

    def work(job: Job) -> None:
        for number, snapshot in enumerate(snapshots):
            publisher(wishes, snapshot, newcomers[number * K : (number + 1) * K])(job)

    return work


def eraser(wishes: Wishes, people_leaving: Sequence[str]) -> Callable[[Job], None]:
    """Erase people."""

    def work(_: Job) -> None:
        wishes.leaving |= set(people_leaving)
        erasure.erase(wishes.series.store, POPULATION, NAME, wishes.series.maker(), ids=people_leaving)
        wishes.erased |= set(people_leaving)

    return work


def withdrawer(wishes: Wishes, snapshot: str, name: str = NAME) -> Callable[[Job], None]:
    """Withdraw a snapshot, whichever of its revisions is offered."""

    def work(_: Job) -> None:
        if Ledger.exists(wishes.series.store, POPULATION):
            with exclusive(wishes.series.store, POPULATION) as ledger:
                found = ledger.find(name, snapshot)
            if found is not None:
                withdrawal.withdraw(wishes.series.store, POPULATION, name, snapshot, "a mistake")

    return work


def recovered(store: Store) -> None:
    """Do what every command does first after a crash."""
    try:
        recover(store, POPULATION)
    except MurmurError as problem:
        raise AssertionError(f"recovery: {problem.what}") from None
