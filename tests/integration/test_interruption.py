"""The stack stops when it is told to, also in the middle of its start, and a failed start leaves nothing."""

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
    """A state directory whose database is removed afterwards."""
    place = tmp_path / ".stack"
    yield place
    Stack(place).clean()


@pytest.fixture
def taken_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def database_of(state):
    return (state / "postgres").readlink()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=lambda n: str(n),
)
def test_a_signal_in_the_middle_of_the_start(tmp_path, state, left_behind, number, code):
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


def test_a_component_that_dies_takes_the_rest_with_it(tmp_path, state, taken_port, left_behind):
    stack = Stack(state, store=tmp_path / "store", workers=1)
    stack.dask_port = taken_port
    with pytest.raises(StackError, match="dask-scheduler ended") as told:
        stack.start()
    assert str(state / "logs" / "dask-scheduler.log") in str(told.value)
    assert left_behind(tmp_path, database_of(state)) == []


def test_a_taken_port_is_named_before_anything_starts(tmp_path, state, taken_port):
    with pytest.raises(UsageError, match=f"127.0.0.1:{taken_port}"):
        Stack(state, store=tmp_path / "store", port=taken_port).start()
    assert not (state / "postgres").is_symlink()


def test_one_stack_at_a_time(tmp_path, state):
    first = Stack(state, store=tmp_path / "store")
    state.mkdir()
    with first._lock:
        with pytest.raises(UsageError, match="running already"):
            Stack(state, store=tmp_path / "store").start()
        with pytest.raises(UsageError, match="running already"):
            Stack(state).clean()
    assert state.exists()


def test_cleaning_forgets_the_database_but_never_the_store(tmp_path, state, taken_port):
    stack = Stack(state, store=tmp_path / "store", workers=1)
    stack.dask_port = taken_port
    with pytest.raises(StackError):
        stack.start()
    database = database_of(state)
    (tmp_path / "store").mkdir(exist_ok=True)
    assert database.is_dir()
    assert database.stat().st_mode & 0o777 == 0o700
    stack.clean()
    assert not database.exists()
    assert not state.exists()
    assert (tmp_path / "store").is_dir()


def test_state_is_the_owners_alone(tmp_path, state, taken_port):
    with pytest.raises(UsageError):
        Stack(state, store=tmp_path / "store", port=taken_port).start()
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "logs").stat().st_mode & 0o777 == 0o700
