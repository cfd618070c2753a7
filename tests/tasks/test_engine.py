"""Test the engine: blocks mapped in this process and on Dask workers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import dask
import numpy as np
import psutil
import pytest
from distributed import Client, KilledWorker, LocalCluster

from tasks import engine as engine_module
from tasks.engine import (
    NO_PAGES,
    ClusterLost,
    Engine,
    _losses_named,
    engine,
    engine_on_demand,
    make_certificate,
    workers_wanted,
)
from tasks.errors import Refused, UsageError
from tasks.store import owner_only
from tests.other_account import NOBODY, knock

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")


def square(block, *, offset=0):
    return block * block + offset


def sleep_a_little(block):
    time.sleep(0.05)
    return block


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


@pytest.fixture
def two_workers(started_workers):
    """Return an engine of two workers that run already: a start takes longer than everything they do here."""
    return Engine(started_workers)


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


def own_pid(block):
    return os.getpid()


def test_shared_workers(shared_workers, started_workers):
    """Tests share running workers: one of them where a test asks for one, both where it asks for two."""
    used = {}
    for count in (1, 2):
        with engine(count) as workers:
            used[count] = set(workers.map(own_pid, range(40)))
    assert (len(used[1]), len(used[2])) == (1, 2)
    assert used[1] < used[2] == set(started_workers.run(os.getpid).values())


def test_map_arguments(two_workers):
    """Dask keeps a large argument under its bare name: two calls must not share it."""
    for value in range(3):
        table = np.full(50_000, value)
        assert two_workers.map(first_of, range(4), table=table) == [value] * 4


def test_workers_on_demand(started_workers, monkeypatch):
    """Workers are started for the first block; what they used before is not this run's."""
    opened = []
    monkeypatch.setenv("MURMUR_WORKERS", "2")
    monkeypatch.setattr(
        "tasks.engine._embedded",
        lambda count: opened.append(count) or contextlib.nullcontext(started_workers),
    )
    with engine_on_demand() as workers:
        assert workers.cpu_seconds() > 0
        assert opened == []
        assert workers.map(square, range(3)) == [0, 1, 4]
        assert opened == [2]
        assert workers.workers == 2
        on_workers = sum(started_workers.run(time.process_time).values())
        assert 0 < workers.cpu_seconds() < time.process_time() + on_workers
    with engine_on_demand():
        pass
    assert opened == [2]


@pytest.mark.slow
def test_killed_worker(tmp_path):
    """A worker that is killed is replaced, and its blocks are computed again."""
    with engine(2) as workers, owner_only():
        assert workers.map(die_once, range(8), mark=str(tmp_path / "died")) == list(range(8))
        assert (tmp_path / "died").exists()
        # The replacement, too, computes on one thread and writes for the owner only.
        threads, mode = workers.map(environment, [str(tmp_path / "written")])[0]
        assert (threads, mode) == ("1", 0o600)


@contextlib.contextmanager
def small_cluster(n_workers):
    """Run scheduler and workers as threads of this process."""
    settings = {routes: [] for routes in NO_PAGES} | {"distributed.scheduler.no-workers-timeout": "0.5s"}
    here = {"processes": False, "protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with contextlib.ExitStack() as opened:
        opened.enter_context(dask.config.set(settings))
        cluster = opened.enter_context(
            LocalCluster(n_workers=n_workers, scheduler_kwargs={"dashboard": False}, **here)
        )
        yield cluster, opened.enter_context(Client(cluster, set_as_default=False))


def test_a_lost_scheduler_is_no_result():
    """Dask gives the error of a lost connection as if the function had returned it."""
    with small_cluster(1) as (cluster, client):

        def cut():
            for comm in cluster.scheduler.client_comms.values():
                comm.comm.abort()

        client.loop.call_later(0.3, cut)
        with pytest.raises(ClusterLost, match="the connection to the Dask scheduler was lost"):
            Engine(client).map(sleep_a_little, range(100))


def test_a_run_without_workers_ends():
    with small_cluster(0) as (_, client):
        engine_without = Engine(client)
        assert engine_without.cpu_seconds() > 0
        with pytest.raises(ClusterLost, match="no Dask worker was left, and none came within 0 seconds"):
            engine_without.map(square, range(3))


def test_blocks_that_end_every_worker_are_named():
    """For example because they need more memory than a worker may have."""
    with pytest.raises(ClusterLost, match="4 Dask workers ended one after the other"), _losses_named():
        raise KilledWorker("task", None, 3)


def test_worker_error(two_workers):
    """An error of ours arrives from a worker with its message, place and remedy."""
    with pytest.raises(Refused) as problem:
        two_workers.map(refuse, [1])
    assert (problem.value.what, problem.value.where, problem.value.remedy) == ("no", "here", "do that")


def addresses_of(client) -> list[str]:
    """Return where the scheduler, the workers and their nannies listen."""
    info = client.scheduler_info(n_workers=-1)
    return [
        info["address"],
        *info["workers"],
        *(worker["nanny"] for worker in info["workers"].values()),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("uid", [None, pytest.param(NOBODY, marks=as_root)], ids=["same", "nobody"])
def test_only_the_run_itself_can_connect(two_workers, uid):
    """Whoever connects to Dask can run code as its owner: scheduler, workers and nannies ask for the certificate."""
    security = two_workers._client.security
    addresses = addresses_of(two_workers._client)
    assert len(addresses) == 5
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    found = knock(addresses, (security.tls_client_cert, security.tls_client_key), uid=uid)
    for address in addresses:
        assert found[address] == {
            "plain": "refused",
            "no certificate": "refused",
            "a certificate of its own": "refused",
            "the owner's certificate": "accepted",
        }


def test_the_web_server_shows_nothing(two_workers):
    """Dask's HTTP server cannot be switched off; it has no pages, neither the scheduler's nor the workers'."""
    known = {int(address.rpartition(":")[2]) for address in addresses_of(two_workers._client)}
    here = psutil.Process()
    sockets = [
        socket.laddr
        for process in (here, *here.children(recursive=True))
        for socket in process.net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN
    ]
    assert {socket.ip for socket in sockets} == {"127.0.0.1"}
    ports = {socket.port for socket in sockets} - known
    assert len(ports) == 3
    for port in ports:
        for page in ("", "status", "info/main/workers.html", "json/identity.json", "metrics", "health"):
            with pytest.raises(urllib.error.HTTPError) as answer:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)
            assert answer.value.code == 404


@pytest.fixture
def credentials(tmp_path, monkeypatch):
    """Name a certificate and its key in the environment; return their files."""
    files = [tmp_path / "dask.crt", tmp_path / "dask.key"]
    for file, text in zip(files, make_certificate(), strict=True):
        file.write_text(text)
        file.chmod(0o600)
    monkeypatch.setenv("MURMUR_DASK", "tls://127.0.0.1:9")
    monkeypatch.setenv("MURMUR_DASK_CA", str(files[0]))
    monkeypatch.setenv("MURMUR_DASK_CERT", str(files[0]))
    monkeypatch.setenv("MURMUR_DASK_KEY", str(files[1]))
    monkeypatch.setattr("tasks.engine.CONNECT_SECONDS", 1, raising=True)
    return files


def refusal() -> UsageError:
    """Return the error with which the connection to MURMUR_DASK is refused."""
    with pytest.raises(UsageError) as problem, engine():
        pass
    assert problem.value.remedy
    return problem.value


def test_no_scheduler(credentials):
    """An address where no scheduler answers is a usage error."""
    assert "no Dask scheduler answers" in refusal().what


def test_external_scheduler(two_workers, credentials, monkeypatch):
    """MURMUR_DASK is reached with the certificate of its cluster, and with no other."""
    client = two_workers._client
    monkeypatch.setenv("MURMUR_DASK", client.scheduler_info()["address"])
    assert "does not accept our certificate" in refusal().what
    for file, text in zip(
        credentials, (client.security.tls_client_cert, client.security.tls_client_key), strict=True
    ):
        file.write_text(text)
    with engine() as outside:
        assert outside.map(square, range(3)) == [0, 1, 4]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "127.0.0.1:8786", "ws://127.0.0.1:8786"])
def test_plain_scheduler(credentials, monkeypatch, address):
    """A scheduler that asks nobody for a certificate is not used."""
    monkeypatch.setenv("MURMUR_DASK", address)
    assert "without a certificate" in refusal().what


def test_unusable_certificates(credentials, monkeypatch):
    """What is wrong with a certificate is said: missing, half named, not one, readable by others."""
    key = credentials[1]
    key.chmod(0o640)
    assert "read by others" in refusal().what
    key.chmod(0o600)
    key.write_text("no key")
    assert "cannot be used" in refusal().what
    key.unlink()
    assert "cannot be used" in refusal().what
    monkeypatch.delenv("MURMUR_DASK_KEY")
    assert "MURMUR_DASK_KEY must be set" in refusal().what
    monkeypatch.delenv("MURMUR_DASK_CA")
    monkeypatch.delenv("MURMUR_DASK_CERT")
    assert "there is no certificate" in refusal().what


def test_workers_not_a_number(monkeypatch):
    """A number of workers that is not a number is a usage error."""
    monkeypatch.setenv("MURMUR_WORKERS", "many")
    with pytest.raises(UsageError, match="not a number"):
        workers_wanted()


INTERRUPTED = """
import os, signal, sys, time
from tasks.engine import engine

def report_signals(block):
    # A worker that took Ctrl-C as this process does would end here, in the middle of a task, with a traceback.
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())

def fill_the_disk(block):
    raise OSError(28, "No space left on device: person-001")

if __name__ == "__main__":
    try:
        with engine(1) as workers:
            try:
                workers.map(fill_the_disk, [1])
            except OSError as problem:
                print("ERROR", problem.errno, flush=True)
            print("WORKER", workers.map(report_signals, [1]), flush=True)
            os.killpg(0, signal.SIGINT)
            time.sleep(60)
    except KeyboardInterrupt:
        print("INTERRUPTED", flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_ends_this_process_and_no_worker_prints_a_traceback(tmp_path):
    """A terminal sends the signal to the whole process group. Dask logs nothing of what fails on a worker, either: the
    words of an exception may hold a source id."""
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=120,
    )
    assert done.stdout.splitlines() == ["ERROR 28", "WORKER [True]", "INTERRUPTED"]
    assert done.stderr == ""


def test_an_interrupt_is_held_until_the_block_ends(request):
    # Another test of this process may have installed the stack's handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    seen = []

    def interrupted():
        with engine_module._interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            seen.append("the block went on")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == ["the block went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with engine_module._interrupts_held():
        pass  # nothing was held, so nothing is raised
