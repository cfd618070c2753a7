"""Test that the stack stops on a signal, also during its start, and that a failed start leaves nothing behind."""

import contextlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from tasks.errors import UsageError
from tasks.stack import Stack, StackError
from tasks.stack.processes import tail

pytestmark = pytest.mark.stack


@pytest.fixture
def state(tmp_path):
    """Return a state directory whose database is removed afterwards."""
    place = tmp_path / ".stack"
    yield place
    Stack(place).clean()


@contextlib.contextmanager
def listening():
    """Occupy a port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def taken_port():
    """Return a port that is in use."""
    with listening() as port:
        yield port


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Return a stack whose Dask scheduler found its port in use, and the error with which the start ended."""
    root = tmp_path_factory.mktemp("failed")
    stack = Stack(root / ".stack", store=root / "store", workers=1)
    with listening() as port:
        stack.dask_port = port
        with pytest.raises(StackError) as problem:
            stack.start()
    yield stack, str(problem.value)
    stack.clean()


def database_of(state):
    return (state / "postgres").readlink()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=lambda n: str(n),
)
def test_signal_during_start(tmp_path, state, left_behind, number, code):
    """A signal during the start ends every component."""
    command = [sys.executable, "-m", "tasks.stack", "ui", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as supervisor:
        migration = state / "logs" / "migrate.log"
        deadline = time.monotonic() + 60
        while not migration.exists():
            assert supervisor.poll() is None, supervisor.stdout.read().decode()
            assert time.monotonic() < deadline, tail(state / "logs" / "postgres.log")
            time.sleep(0.1)
        assert len(left_behind(tmp_path, database_of(state))) > 3  # the search does find them while they run
        supervisor.send_signal(number)
        assert supervisor.wait(30) == code
    assert left_behind(tmp_path, database_of(state), patience=15 if number == signal.SIGKILL else 0) == []


def test_component_dies(failed, left_behind):
    """When a component ends during the start, all others are stopped and its log is named."""
    stack, problem = failed
    assert "dask-scheduler ended" in problem
    assert str(stack.state / "logs" / "dask-scheduler.log") in problem
    assert left_behind(stack.state.parent, database_of(stack.state)) == []


def test_port_taken(tmp_path, state, taken_port):
    """A port that is in use is refused before anything starts."""
    with pytest.raises(UsageError, match=f"127.0.0.1:{taken_port}"):
        Stack(state, store=tmp_path / "store", port=taken_port).start()
    assert not (state / "postgres").is_symlink()


def test_second_stack(tmp_path, state):
    """A second stack with the same state directory is refused."""
    first = Stack(state, store=tmp_path / "store")
    state.mkdir()
    with first._lock:
        with pytest.raises(UsageError, match="running already"):
            Stack(state, store=tmp_path / "store").start()
        with pytest.raises(UsageError, match="running already"):
            Stack(state).clean()
    assert state.exists()


def test_clean(failed):
    """Cleaning removes the database and never the store."""
    stack, _ = failed
    database, store = database_of(stack.state), stack.store.root
    store.mkdir(exist_ok=True)
    assert database.is_dir()
    assert database.stat().st_mode & 0o707 == 0o700  # as root with a group of its own, which may pass through
    stack.clean()
    assert not database.exists()
    assert not stack.state.exists()
    assert store.is_dir()


def test_state_mode(tmp_path, state, taken_port):
    """The state directory is closed to other users."""
    with pytest.raises(UsageError):
        Stack(state, store=tmp_path / "store", port=taken_port).start()
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "logs").stat().st_mode & 0o777 == 0o700
