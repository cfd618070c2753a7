"""Test that components start in own sessions and never outlive the stack."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tasks.stack.processes import Component, StackError, ignore_stop_signals, stop, wait_until

# A parent and a child in another session, both deaf to TERM: worse than anything in the stack.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def component(tmp_path):
    made = []

    def make(program: str) -> Component:
        made.append(
            Component(
                "test", [sys.executable, "-c", program], tmp_path / "test.log", dict(os.environ), tmp_path
            )
        )
        made[-1].start()
        return made[-1]

    yield make
    stop(made, grace=0)


def said(component: Component, text: str) -> None:
    wait_until(lambda: text in component.log.read_text(), text, [component], timeout=20)


def test_stop_kills(component, tmp_path, left_behind):
    """A process that ignores SIGTERM is killed together with its children."""
    deaf = component(STUBBORN)
    wait_until(lambda: deaf.log.read_text().count("ready") == 2, "both", [deaf], timeout=20)
    assert len(left_behind(tmp_path)) == 2
    stop([deaf], grace=0.5)
    assert left_behind(tmp_path) == []


def test_stop_returns_early(component, left_behind, tmp_path):
    """Stopping does not wait longer than the component needs."""
    polite = component("import time; print('up', flush=True); time.sleep(600)")
    said(polite, "up")
    begun = time.monotonic()
    stop([polite], grace=60)
    assert time.monotonic() - begun < 10
    assert left_behind(tmp_path) == []


def test_stop_orphans(component, left_behind, tmp_path):
    """Children whose parent has ended are stopped."""
    parent = component("import os, time; os.fork() or (print('up', flush=True), time.sleep(600))")
    said(parent, "up")
    assert parent.process.wait(20) == 0  # the child is an orphan now
    stop([parent], grace=1)
    assert left_behind(tmp_path) == []


def test_signal_during_start(component, left_behind, tmp_path, monkeypatch):
    """A stop signal that arrives while a process is being started takes effect when its number is known."""
    popen = subprocess.Popen

    def interrupted(*arguments, **options):
        process = popen(*arguments, **options)
        signal.raise_signal(signal.SIGINT)
        return process

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    program = Component(
        "test",
        [sys.executable, "-c", "import time; time.sleep(600)"],
        tmp_path / "test.log",
        dict(os.environ),
        tmp_path,
    )
    with pytest.raises(KeyboardInterrupt):
        program.start()
    assert len(left_behind(tmp_path)) == 1
    stop([program])
    assert left_behind(tmp_path) == []
    assert signal.getsignal(signal.SIGINT) is before


def test_wait_reports_log(component):
    """A component that ends is reported with its exit code and the end of its log."""
    short = component("print('no room left'); raise SystemExit(7)")
    with pytest.raises(StackError) as refusal:
        wait_until(lambda: False, "nothing", [short], timeout=20)
    assert "test ended with exit code 7" in str(refusal.value)
    assert "no room left" in str(refusal.value)
    assert str(short.log) in str(refusal.value)


def test_wait_timeout(component):
    """Waiting ends with an error that names what was not ready."""
    idle = component("import time; time.sleep(600)")
    with pytest.raises(StackError, match="the moon was not ready after 1 s"):
        wait_until(lambda: False, "the moon", [idle], timeout=1)


def test_log_mode(component):
    """Logs and files of a component are closed to other users."""
    idle = component("import os; os.open('made', os.O_CREAT | os.O_WRONLY, 0o666); print('made', flush=True)")
    idle.process.wait(20)
    assert idle.log.stat().st_mode & 0o777 == 0o600
    assert (idle.directory / "made").stat().st_mode & 0o777 == 0o600


SUPERVISOR = """
import sys, time, os
from pathlib import Path
from tasks.stack.processes import Component
here = Path(sys.argv[1])
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
Component("sleep", sleep, here / "log", dict(os.environ), here).start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child when its parent dies")
def test_supervisor_killed(tmp_path, left_behind):
    """Components end when their supervisor is killed."""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout.readline() == "started\n"
    assert len(left_behind(tmp_path)) == 2
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    assert left_behind(tmp_path, patience=10) == []


def test_undisturbed():
    """A second signal does not interrupt the stopping of components."""
    before = signal.getsignal(signal.SIGTERM)
    with ignore_stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert psutil.Process().is_running()
    assert signal.getsignal(signal.SIGTERM) == before
