"""Put the real code of store, ledger, publication, erasure and withdrawal on a simulated machine.

Replaced are: the file system, the clock, random numbers, lock files and the engine of the ledger's database. Nothing
else: candidates are published by tasks/series/publication.py, people erased by tasks/series/erasure.py.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import random
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from tasks.series import chain, database, publication, repair
from tasks.series.ledger import Ledger
from tasks.storage import local
from tests.simulation.baton import Baton, Lock, Process
from tests.simulation.file_system import FileSystem
from tests.simulation.ledgers import LedgerInMemory
from tests.simulation.mount import Mount, mounted

STORE = "/sim/store"
LEDGERS = f"{STORE}/private/ledger"
READS = (
    "releases",
    "groups",
    "listed",
    "people",
    "memberships",
    "blocked",
    "catalogue",
    "withdrawals",
    "pending",
    "spent",
)
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Image:
    """Hold the state of a whole machine: its disk and its ledger."""

    disk: FileSystem
    ledger: bytes


class Machine:
    """Hold the simulated parts; one machine serves all schedules of an operating system's process."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.baton = Baton(self.rng, None, 0.0)
        self.seconds = 0.0
        self.observers: list[Callable[[str], None]] = []
        self.disk = FileSystem(self._point, self._changed, self._clock)
        self.mount = Mount(self.disk)
        self.ledger = LedgerInMemory()
        self.ledger.point = lambda what, where: self.baton.point(what, f"ledger {where}")
        self.ledger.set_atomic = self._set_atomic
        self.ledger.synced = self._ledger_synced
        self._locks: dict[str, Lock] = {}

    def reset(self, image: Image, rng: random.Random, baton: Baton) -> None:
        """Begin a schedule."""
        self.rng, self.seconds = rng, 0.0
        self.disk.restore(image.disk)
        self.ledger.load(image.ledger)
        self.boot(baton)

    def boot(self, baton: Baton) -> None:
        """Start the machine again: no process, no lock, no open file."""
        self.baton = baton
        self._locks.clear()
        self.mount.close_all()
        self.disk.umask = 0o022
        baton.on_power, baton.on_kill, baton.on_switch = self.ledger.crash, self.ledger.crash, self._switched

    def lose_power(self, rng: random.Random) -> None:
        """Leave on the disk what a power failure may leave."""
        self.disk.lose_power(rng, rng.choice(("strict", "journal")))
        if self.disk.get(f"{LEDGERS}/people.db") is None:
            self.ledger.load(LedgerInMemory.EMPTY)
        self._changed(STORE)

    def image(self) -> Image:
        disk = FileSystem(self._point, self._changed, self._clock)
        disk.restore(self.disk)
        return Image(disk, self.ledger.save())

    def _point(self, what: str, where: str) -> None:
        self.baton.point(what, where)

    def _set_atomic(self, value: bool) -> None:
        self.baton.is_atomic = value and self.baton.current is not None

    def _changed(self, path: str) -> None:
        for observer in self.observers:
            observer(path)

    def _ledger_synced(self) -> None:
        if self.disk.get(LEDGERS) is not None:
            self.disk._settle(self.disk.directory(LEDGERS))

    def _switched(self, before: Process | None, after: Process) -> None:
        """Give each process its own umask, as the kernel does."""
        if before is not None:
            before.umask = self.disk.umask
        self.disk.umask = after.umask

    def _clock(self) -> int:
        return int(self.now().timestamp() * 1e9)

    def now(self, zone: datetime.tzinfo | None = None) -> datetime.datetime:
        """Return the time: it goes on at each look, and now and then it is set back."""
        self.seconds += self.rng.random() * 2
        if self.rng.random() < 0.01:
            self.seconds -= self.rng.random() * 100_000
        return BEGIN + datetime.timedelta(seconds=self.seconds)

    def lock(self, path: os.PathLike[str] | str, **options: Any) -> _FileLock:
        """Stand in for filelock.FileLock: a lock of one process."""
        return _FileLock(self, os.fspath(path), options.get("mode", 0o644), shared=False)

    def share(self, path: os.PathLike[str] | str) -> _FileLock:
        """Stand in for tasks.storage.local._shared: the same lock, held together with others."""
        return _FileLock(self, os.fspath(path), 0o600, shared=True)

    def lock_of(self, path: str) -> Lock:
        return self._locks.setdefault(path, Lock())


class _FileLock:
    """Represent one attempt to hold a lock file. Nobody waits in vain: who gives up after a time repeats it later."""

    def __init__(self, machine: Machine, path: str, mode: int, *, shared: bool) -> None:
        self._machine, self._path, self._mode, self._shared = machine, path, mode, shared

    def acquire(self) -> _FileLock:
        machine = self._machine
        machine.disk.open(self._path, os.O_RDWR | os.O_CREAT, self._mode)
        machine.baton.point("lock", self._path)
        process = machine.baton.current
        if process is None:
            return self
        lock = machine.lock_of(self._path)
        if lock.is_closed_to(process, shared=self._shared):
            machine.baton.wait_for(lock, shared=self._shared)
        lock.take(process, shared=self._shared)
        return self

    def release(self) -> None:
        process = self._machine.baton.current
        if process is None or not self._machine.lock_of(self._path).give_back(process):
            return
        if not process.is_dead:
            self._machine.baton.point("unlock", self._path)

    def __enter__(self) -> _FileLock:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextlib.contextmanager
def simulated(machine: Machine) -> Iterator[None]:
    """Let this process run on the simulated machine."""

    def names() -> Iterator[str]:
        while True:
            yield f"{machine.rng.getrandbits(40):010x}"

    clock = SimpleNamespace(
        datetime=SimpleNamespace(now=machine.now),
        UTC=datetime.UTC,
        date=datetime.date,
        timedelta=datetime.timedelta,
    )
    tempfile.gettempdir()  # found on the real file system
    with contextlib.ExitStack() as stack:
        stack.enter_context(_little_collected())

        def put(place: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(place, name, value))

        stack.enter_context(mounted(machine.mount, names()))
        stack.enter_context(mock.patch.dict(os.environ))
        for name in ("MURMUR_LEDGER", "MURMUR_STORE", "MURMUR_SECRET_FILE"):
            os.environ.pop(name, None)
        put(secrets, "token_bytes", lambda n=32: machine.rng.randbytes(n))
        put(secrets, "token_hex", lambda n=32: machine.rng.randbytes(n).hex())
        put(database, "_engine", machine.ledger.open)
        put(local, "FileLock", machine.lock)
        put(local, "_shared", machine.share)
        for name in READS:
            put(Ledger, name, machine.ledger.remembered(getattr(Ledger, name)))
        put(
            chain,
            "read_chain",
            machine.ledger.remembered(chain.read_chain, own_transaction=False),
        )
        for module in (chain, publication, repair):
            put(module, "datetime", clock)
        yield


@contextlib.contextmanager
def _little_collected() -> Iterator[None]:
    """Look for cycles seldom, and not in what is there already: that took a tenth of the time."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
