"""Run several processes in one, in an order that a seed decides: they change places where the file system or the ledger
changes, and any of these places may be a crash.

A crash ends a process (kill -9: what it wrote stays, its locks are free) or the machine (power: all processes end, and
the file system loses what was not synced). A process that has ended can change nothing any more: whatever its handlers
of exceptions still try raises `Crashed` again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from greenlet import getcurrent, greenlet

Kind = Literal["kill", "power"]
WEIGHTY = ("rename", "chmod", "fsync", "commit", "committed", "rmdir")
MOST_STEPS = 200_000  # of one schedule: more means that processes wait for each other for ever


@dataclass(frozen=True)
class Crash:
    """Define where a crash comes: at a step, or at a step of those after which readers or the ledger see a change."""

    kind: Kind
    step: int
    counts_weighty_steps: bool = False

    def is_now(self, step: int, weighty_step: int) -> bool:
        return (weighty_step if self.counts_weighty_steps else step) == self.step


class Crashed(BaseException):
    """End a process at the place where it is."""


@dataclass
class Process:
    """Represent one process: its work, and whether it is still alive."""

    name: str
    work: Callable[[], None]
    umask: int = 0o022
    is_dead: bool = False
    waits_for: Lock | None = None
    shares: bool = False  # the lock that it waits for
    error: BaseException | None = None
    thread: greenlet | None = field(default=None, repr=False)

    @property
    def is_done(self) -> bool:
        return self.is_dead or (self.thread is not None and self.thread.dead)


class Baton:
    """Hold the processes of one boot of the machine and decide who goes on."""

    def __init__(self, rng: random.Random, crash: Crash | None, switch_share: float) -> None:
        self.rng, self.crash, self.switch_share = rng, crash, switch_share
        self.processes: list[Process] = []
        self.current: Process | None = None
        self.steps = self.weighty_steps = 0
        self.has_crashed = False
        self.is_atomic = False  # inside a transaction of the database: others wait for its end
        self.trace: list[tuple[object, ...]] = []
        self.on_power: Callable[[], None] = lambda: None
        self.on_kill: Callable[[], None] = lambda: None
        self.on_switch: Callable[[Process | None, Process], None] = lambda before, after: None
        self._hub = getcurrent()

    def point(self, what: str, where: str = "") -> None:
        """Let somebody else go on, or crash; outside of processes nothing happens."""
        process = self.current
        if process is None:
            return
        if process.is_dead:
            raise Crashed
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise AssertionError("processes wait for each other for ever")
        self.trace.append((self.steps, process.name, what, where))
        if what in WEIGHTY:
            self.weighty_steps += 1
        if self.crash is not None and self.crash.is_now(
            self.steps, self.weighty_steps if what in WEIGHTY else 0
        ):
            self._crash(process, self.crash.kind)
        if not self.is_atomic and len(self.processes) > 1 and self.rng.random() < self.switch_share:
            self._hub.switch()
            if process.is_dead:
                raise Crashed

    def _crash(self, process: Process, kind: Kind) -> None:
        self.trace.append((self.steps, process.name, kind, ""))
        self.crash, self.has_crashed = None, True
        ended = self.processes if kind == "power" else [process]
        for one in ended:
            one.is_dead = True
        self.is_atomic = False
        if kind == "power":
            self.on_power()
        else:
            self.on_kill()
        raise Crashed

    def wait_for(self, lock: Lock, *, shared: bool) -> None:
        """Let others go on until a lock is free."""
        process = self.current
        assert process is not None
        process.waits_for, process.shares = lock, shared
        while lock.is_closed_to(process, shared=shared):
            self._hub.switch()
            if process.is_dead:
                raise Crashed
        process.waits_for = None

    def run(self, processes: list[Process]) -> None:
        """Run processes until each is done or dead."""
        self.processes = processes
        self._hub = getcurrent()
        for process in processes:
            process.thread = greenlet(lambda one=process: _work(one))
        while ready := [one for one in processes if self._is_ready(one)]:
            before, self.current = self.current, self.rng.choice(ready)
            self.on_switch(before, self.current)
            assert self.current.thread is not None
            self.current.thread.switch()
        self.current = None
        waiting = [one.name for one in processes if not one.is_done]
        for one in processes:  # those that a power failure ended while others were at work
            if one.is_dead and one.thread:  # begun and not ended
                self.current = one
                one.thread.throw(Crashed)
        self.current, self.processes = None, []
        assert not waiting, f"{waiting} wait for each other"

    def _is_ready(self, one: Process) -> bool:
        if one.is_done:
            return False
        return one.waits_for is None or not one.waits_for.is_closed_to(one, shared=one.shares)


def _work(process: Process) -> None:
    try:
        process.work()
    except Crashed:
        process.is_dead = True
    except BaseException as problem:
        process.error = problem


class Lock:
    """Represent the lock of one file, for all processes of a machine; a process that ends gives it back.

    Several may hold it together (`sharers`), or one alone (`holder`). As in the kernel, who wants it alone has no turn
    before those who come later and share it.
    """

    def __init__(self) -> None:
        self.holder: Process | None = None
        self.sharers: list[Process] = []

    def is_closed_to(self, process: Process, *, shared: bool) -> bool:
        """Test whether a process must wait."""
        if self.holder is not None and self.holder is not process and not self.holder.is_done:
            return True
        return not shared and any(one is not process and not one.is_done for one in self.sharers)

    def take(self, process: Process, *, shared: bool) -> None:
        """Hold the lock; it is open to the process."""
        held = self.holder is process or any(one is process for one in self.sharers)
        assert not held, "a process would wait for itself"
        if shared:
            self.sharers = [one for one in self.sharers if not one.is_done] + [process]
        else:
            self.holder, self.sharers = process, []

    def give_back(self, process: Process) -> bool:
        """Let others in; return whether the process held the lock."""
        if self.holder is process:
            self.holder = None
            return True
        before = len(self.sharers)
        self.sharers = [one for one in self.sharers if one is not process]
        return len(self.sharers) < before
