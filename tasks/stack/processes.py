"""Components under supervision: started in sessions of their own, stopped with everything they started.

A component's process group is not enough: Airflow puts every task into a new group and PostgreSQL every
backend into a new session. What belongs to a component is therefore found by descent and by session, just
before it is stopped; what ignores the polite signal for ten seconds is killed.
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

import psutil

from tasks.errors import MurmurError
from tasks.store import PRIVATE_UMASK

GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


class StackError(MurmurError):
    """A component of the embedded stack did not start or did not stay up."""


@dataclass
class Component:
    """One program of the stack and the process that runs it."""

    name: str
    command: list[str]
    log: Path
    environment: dict[str, str]
    directory: Path
    stop_signal: signal.Signals = signal.SIGTERM
    user: str | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the program, its output in the log; the kernel ends it should the supervisor be killed."""
        with open_log(self.log) as log:
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
                group=self.user and pwd.getpwnam(self.user).pw_gid,
                extra_groups=[] if self.user else None,
                preexec_fn=_die_with_parent(self.stop_signal),
            )

    def check(self) -> None:
        """Raise, naming the log, if the program has ended."""
        if self.process is not None and (code := self.process.poll()) is not None:
            raise StackError(
                f"{self.name} ended with exit code {code}:\n{tail(self.log)}",
                where=str(self.log),
                remedy="read the log; the rest of the stack has been stopped",
            )

    def family(self) -> list[psutil.Process]:
        """The process and everything it started, whatever group, session or title that has now."""
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
    """Stop components together: the polite signal to their groups, then KILL to whoever is left."""
    running = [c for c in components if c.process is not None]
    families = [process for component in running for process in component.family()]
    for component in running:
        assert component.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(component.process.pid, component.stop_signal)
    _, stubborn = psutil.wait_procs(families, timeout=grace)
    latecomers = (process for component in running for process in component.family())
    for process in {*stubborn, *latecomers}:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for component in running:
        assert component.process is not None
        component.process.wait()
        component.process = None


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C or TERM must not interrupt the stopping that the first one asked for."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        before = [signal.signal(s, signal.SIG_IGN) for s in signals]
    except ValueError:  # not the main thread: signals do not arrive here anyway
        yield
        return
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def wait_until(ready: Callable[[], bool], what: str, components: Iterable[Component], timeout: float) -> None:
    """Poll until `ready`; a component that dies meanwhile ends the wait at once."""
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
    """A log file to append to, readable by the owner alone."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])


def _die_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where little is safe

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number))

    return ask_the_kernel
