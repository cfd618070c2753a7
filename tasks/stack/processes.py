"""Start components in sessions of their own, and stop them with every process they started.

The process group of a component is not enough: Airflow puts every task into a new group, and PostgreSQL every backend
into a new session. The processes of a component are therefore found by parentage and by session, just before it is
stopped. A process that ignores the stop signal for ten seconds is killed.
"""

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from tasks.errors import MurmurError
from tasks.store import PRIVATE_UMASK

GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StackError(MurmurError):
    """Report that a component of the embedded stack did not start or has ended."""


@dataclass
class Component:
    """Represent one program of the stack and the process that runs it."""

    name: str
    command: list[str]
    log: Path
    environment: dict[str, str]
    directory: Path
    stop_signal: signal.Signals = signal.SIGTERM
    user: str | None = None
    group: int | None = None  # of `user`'s process; None: the user's usual one
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the program with its output in the log; the kernel stops it if the supervisor is killed.

        A stop signal waits until the process is known: between its start and the return of `Popen` it would be lost.
        """
        with postpone_stop_signals(), open_log(self.log) as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.directory,
                start_new_session=True,
                umask=PRIVATE_UMASK,
                user=self.user,
                group=pwd.getpwnam(self.user).pw_gid if self.user and self.group is None else self.group,
                extra_groups=[] if self.user else None,
                preexec_fn=_stop_with_parent(self.stop_signal),
            )

    def check(self) -> None:
        """Raise an error with the end of the log if the program has ended."""
        if self.process is not None and (code := self.process.poll()) is not None:
            raise StackError(
                f"{self.name} ended with exit code {code}:\n{tail(self.log)}",
                where=str(self.log),
                remedy="read the log; the rest of the stack has been stopped",
            )

    def process_tree(self) -> list[psutil.Process]:
        """Return the process and all it started, whatever their group, session or title."""
        if self.process is None:
            return []
        members: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.process.pid)
            members = {p.pid: p for p in [leader, *leader.children(recursive=True)]}
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(process.pid) == self.process.pid:
                    members.setdefault(process.pid, process)
        return list(members.values())


def stop(components: Iterable[Component], grace: float = GRACE_SECONDS) -> None:
    """Stop components together: their stop signal to their process groups, then KILL to all that still run."""
    running = [c for c in components if c.process is not None]
    processes = [process for component in running for process in component.process_tree()]
    for component in running:
        assert component.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(component.process.pid, component.stop_signal)
    _, stubborn = psutil.wait_procs(processes, timeout=grace)
    latecomers = (process for component in running for process in component.process_tree())
    killed = {*stubborn, *latecomers}
    for process in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    # A killed process keeps its files and its directory until the kernel has finished with it.
    deadline = time.monotonic() + GRACE_SECONDS
    while any(_runs(process) for process in killed) and time.monotonic() < deadline:
        time.sleep(0.01)
    for component in running:
        assert component.process is not None
        component.process.wait()
        component.process = None


def _runs(process: psutil.Process) -> bool:
    """Test whether a process has not ended; one that nobody has waited for yet has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def ignore_stop_signals() -> Iterator[None]:
    """Ignore Ctrl-C, TERM and HUP: a second one must not interrupt the stop that the first one caused."""
    with _handle_stop_signals(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def postpone_stop_signals() -> Iterator[None]:
    """Hold Ctrl-C, TERM and HUP back until the block has ended."""
    arrived: list[int] = []
    try:
        with _handle_stop_signals(lambda number, _: arrived.append(number)):
            yield
    finally:
        for number in arrived:
            signal.raise_signal(number)


@contextlib.contextmanager
def _handle_stop_signals(
    handler: signal.Handlers | Callable[[int, FrameType | None], object],
) -> Iterator[None]:
    try:
        before = {number: signal.signal(number, handler) for number in _STOP_SIGNALS}
    except ValueError:  # not the main thread: it receives no signals
        yield
        return
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def wait_until(ready: Callable[[], bool], what: str, components: Iterable[Component], timeout: float) -> None:
    """Wait until `ready` is true; raise at once if a component ends meanwhile."""
    components = list(components)
    deadline = time.monotonic() + timeout
    while not ready():
        for component in components:
            component.check()
        if time.monotonic() > deadline:
            logs = ", ".join(str(c.log) for c in components)
            raise StackError(
                f"{what} was not ready after {timeout:.0f} s", where=logs, remedy="read the logs"
            )
        time.sleep(0.2)


@contextlib.contextmanager
def open_log(path: Path) -> Iterator[int]:
    """Open a log file for appending, readable by the owner alone."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])


def _stop_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork: few calls are safe after it

    def set_parent_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number))

    return set_parent_death_signal
