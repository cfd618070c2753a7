"""Test the engine: blocks mapped in this process and on Dask workers."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tasks.engine import engine, workers_wanted
from tasks.errors import Refused, UsageError
from tasks.store import owner_only


def square(block, *, offset=0):
    return block * block + offset


def first_of(block, *, table):
    return int(table[block])


def refuse(block):
    raise Refused("no", where="here", remedy="do that")


def die_once(block, *, mark):
    if block == 2 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return block


def environment(block):
    with open(f"{block}", "w") as file:  # noqa: PTH123
        file.write("x")
    return os.environ["OPENBLAS_NUM_THREADS"], os.stat(block).st_mode & 0o777  # noqa: PTH116


@pytest.fixture(scope="module")
def two_workers():
    """Start two workers once: a start takes longer than everything they do here."""
    with engine(2) as workers:
        yield workers


def test_map_order(two_workers):
    """Results come in the order of the blocks, in this process and on workers."""
    expected = [n * n + 1 for n in range(20)]
    done = []
    with engine(0) as here:
        assert here.workers == 0
        assert here.map(square, range(20), offset=1, progress=lambda d, t: done.append((d, t))) == expected
    assert done[-1] == (20, 20)
    assert two_workers.workers == 2
    assert two_workers.map(square, range(20), offset=1) == expected
    assert two_workers.cpu_seconds() > 0


def test_map_arguments(two_workers):
    """Dask keeps a large argument under its bare name: two calls must not share it."""
    for value in range(3):
        table = np.full(50_000, value)
        assert two_workers.map(first_of, range(4), table=table) == [value] * 4


@pytest.mark.slow
def test_killed_worker(tmp_path):
    """A worker that is killed is replaced, and its blocks are computed again."""
    with engine(2) as workers, owner_only():
        assert workers.map(die_once, range(8), mark=str(tmp_path / "died")) == list(range(8))
        assert (tmp_path / "died").exists()
        # The replacement, too, computes on one thread and writes for the owner only.
        threads, mode = workers.map(environment, [str(tmp_path / "written")])[0]
        assert (threads, mode) == ("1", 0o600)


def test_worker_error(two_workers):
    """An error of ours arrives from a worker with its message, place and remedy."""
    with pytest.raises(Refused) as problem:
        two_workers.map(refuse, [1])
    assert (problem.value.what, problem.value.where, problem.value.remedy) == ("no", "here", "do that")


def test_no_scheduler(monkeypatch):
    """An address where no scheduler answers is a usage error."""
    monkeypatch.setenv("MURMUR_DASK", "tcp://127.0.0.1:9")
    monkeypatch.setattr("tasks.engine.CONNECT_SECONDS", 1, raising=True)
    with pytest.raises(UsageError, match="no Dask scheduler answers"), engine():
        pass


def test_workers_not_a_number(monkeypatch):
    """A number of workers that is not a number is a usage error."""
    monkeypatch.setenv("MURMUR_WORKERS", "many")
    with pytest.raises(UsageError, match="not a number"):
        workers_wanted()
