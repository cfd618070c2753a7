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


def test_results_keep_the_order_of_the_blocks_here_and_on_workers():
    expected = [n * n + 1 for n in range(20)]
    done = []
    with engine(0) as here:
        assert here.workers == 0
        assert here.map(square, range(20), offset=1, progress=lambda d, t: done.append((d, t))) == expected
    assert done[-1] == (20, 20)
    with engine(2) as there:
        assert there.workers == 2
        assert there.map(square, range(20), offset=1) == expected
        assert there.cpu_seconds() > 0


def test_large_arguments_of_one_call_never_reach_another():
    """Dask keeps a large argument under its bare name: two calls must not share it."""
    with engine(1) as workers:
        for value in range(3):
            table = np.full(50_000, value)
            assert workers.map(first_of, range(4), table=table) == [value] * 4


def test_a_killed_worker_costs_no_result(tmp_path):
    with engine(2) as workers, owner_only():
        assert workers.map(die_once, range(8), mark=str(tmp_path / "died")) == list(range(8))
        assert (tmp_path / "died").exists()
        # The replacement, too, computes on one thread and writes for the owner only.
        threads, mode = workers.map(environment, [str(tmp_path / "written")])[0]
        assert (threads, mode) == ("1", 0o600)


def test_errors_of_ours_arrive_whole():
    with engine(1) as workers, pytest.raises(Refused) as problem:
        workers.map(refuse, [1])
    assert (problem.value.what, problem.value.where, problem.value.remedy) == ("no", "here", "do that")


def test_an_address_where_nothing_answers_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("MURMUR_DASK", "tcp://127.0.0.1:9")
    monkeypatch.setattr("tasks.engine.CONNECT_SECONDS", 1, raising=True)
    with pytest.raises(UsageError, match="no Dask scheduler answers"), engine():
        pass


def test_the_number_of_workers_must_be_one(monkeypatch):
    monkeypatch.setenv("MURMUR_WORKERS", "many")
    with pytest.raises(UsageError, match="not a number"):
        workers_wanted()
