"""Start and stop the embedded stack: PostgreSQL, Airflow and Dask on this machine."""

import contextlib
import datetime
import importlib.metadata
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import filelock

from tasks.engine import make_certificate, workers_wanted
from tasks.errors import UsageError
from tasks.stack.client import AirflowClient
from tasks.stack.postgres import Postgres
from tasks.stack.processes import Component, StackError, ignore_stop_signals, stop, wait_until
from tasks.stack.settings import (
    LOOPBACK,
    REPOSITORY,
    UI_USER,
    certificate_file,
    environment,
    key_file,
    ui_password,
)
from tasks.store import Store, owner_only, write_bytes

START_SECONDS = 180.0
# A step waits for half of this after the one before it; each look costs the scheduler some 20 ms of CPU time.
IDLE_SECONDS, BUSY_IDLE_SECONDS = 1.0, 0.2

# Components that make requests stop before those that answer them; the database serves all and stops last.
CLIENTS = {"migrate", "scheduler", "dag-processor", "triggerer"}
SERVERS = {"api-server", "dask-scheduler", "dask-worker"}


class Stack:
    """Manage one stack: `with Stack() as stack:` starts it, and stops every process of it however the block ends.

    The directory `state` keeps logs, Airflow's home and a link to the database: a later stack shows earlier runs.
    `idle_seconds` is how long Airflow's scheduler sleeps where it had nothing to do: short where runs are waited for.
    """

    def __init__(
        self,
        state: str | Path = ".stack",
        *,
        store: str | Path | None = None,
        dags: str | Path = REPOSITORY / "dags",
        port: int | None = None,
        workers: int | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.state = Path(state).absolute()
        self.logs = self.state / "logs"
        self.store = Store(store)
        self.workers = max(1, workers_wanted() if workers is None else workers)
        self.port = port or _free_port()
        self.dask_port = _free_port()
        self.idle_seconds = idle_seconds
        self._dags = Path(dags).absolute()
        self._components: list[Component] = []
        self._postgres = Postgres(self.state, self.logs / "postgres.log")
        self._lock = filelock.FileLock(self.state / "lock", timeout=0)
        self.client = AirflowClient(self.url, self.check, login=lambda: (UI_USER, ui_password(self.state)))

    @property
    def url(self) -> str:
        """Return the address of Airflow's user interface."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the components; Airflow's command line needs it to reach this stack."""
        ports = (self.port, self.dask_port)
        return environment(
            self.state, self.store.address, self._dags, self._postgres, ports, self.idle_seconds
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all components and wait until they work; if that fails, stop those that run."""
        certificates = certificate_file(self.state).parent
        for directory in (self.state, self.logs, self.state / "airflow", self.state / "dask", certificates):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
        self._claim()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all components, clients before servers: a task that cannot reach the API would hang."""
        with (
            ignore_stop_signals(),
            contextlib.ExitStack() as last_first,
        ):  # an error in one does not skip the others
            last_first.callback(self._lock.release)
            for names in ({"postgres"}, SERVERS, CLIENTS):
                last_first.callback(stop, [c for c in self._components if c.name in names])
        self._components.clear()

    def check(self) -> None:
        """Raise an error if a component has ended."""
        for component in self._components:
            component.check()

    def clean(self) -> None:
        """Remove the state of a stopped stack: logs, Airflow's home and the database; never the store."""
        if self.state.exists():
            self._claim()
            self._postgres.remove()
            shutil.rmtree(self.state, ignore_errors=True)
            self._lock.release()

    def api(self, method: str, path: str, json: dict[str, Any] | None = None) -> Any:
        """Make one call of Airflow's REST API; `path` is below /api/v2."""
        return self.client.api(method, path, json)

    def airflow(self, *arguments: str) -> str:
        """Run Airflow's own command line against this stack and return its output."""
        result = subprocess.run(
            [_program("airflow"), *arguments],
            env=self.environment,
            cwd=self.state,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise StackError(
                f"airflow {' '.join(arguments)} ended with {result.returncode}:\n{result.stderr[-2000:]}"
            )
        return result.stdout

    def wait_for_dag(self, dag_id: str, timeout: float = START_SECONDS) -> None:
        """Wait until the DAG processor has found a DAG."""
        wait_until(lambda: self.client.has_dag(dag_id), f"DAG {dag_id}", self._components, timeout)

    def _claim(self) -> None:
        """Lock the state directory: two stacks would share a database."""
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise UsageError(
                "the stack of this directory is running already",
                where=str(self.state),
                remedy="stop it with Ctrl-C where it was started",
            ) from None

    def _start(self) -> None:
        _refuse_taken(self.port)
        ui_password(self.state)  # before Airflow would make one and print it into its log
        self._certify()
        server = self._postgres.prepare()
        self._launch(server)
        wait_until(self._postgres.ready, "PostgreSQL", [server], START_SECONDS)
        self._launch(*self._dask())
        self._migrate()
        self._launch(*self._airflow())
        wait_until(self.client.healthy, "Airflow", self._components, START_SECONDS)

    def _certify(self) -> None:
        """Make the certificate with which Dask's processes and their clients know each other."""
        certificate, key = make_certificate()
        with owner_only():
            write_bytes(certificate_file(self.state), certificate.encode())
            write_bytes(key_file(self.state), key.encode())

    def _launch(self, *components: Component) -> None:
        for component in components:
            self._components.append(component)
            component.start()

    def _component(self, name: str, *command: str) -> Component:
        return Component(name, list(command), self.logs / f"{name}.log", self.environment, self.state)

    def _dask(self) -> list[Component]:
        # Without an address the dashboard's HTTP server listens on all interfaces, even with --no-dashboard.
        here = ["--host", LOOPBACK, "--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0"]
        certificate, key = str(certificate_file(self.state)), str(key_file(self.state))
        here += [
            "--protocol",
            "tls",
            "--tls-ca-file",
            certificate,
            "--tls-cert",
            certificate,
            "--tls-key",
            key,
        ]
        scheduler = ["distributed.cli.dask_scheduler", "--port", str(self.dask_port), *here]
        worker = ["distributed.cli.dask_worker", f"tls://{LOOPBACK}:{self.dask_port}", *here]
        worker += ["--nworkers", str(self.workers), "--nthreads", "1", "--memory-limit", "0"]
        # Imported while Airflow starts, not when the first step waits for it.
        worker += ["--local-directory", str(self.state / "dask"), "--preload", "tasks.stack.preload"]
        return [
            self._component("dask-scheduler", sys.executable, "-m", *scheduler),
            self._component("dask-worker", sys.executable, "-m", *worker),
        ]

    def _airflow(self) -> list[Component]:
        commands = {
            "api-server": ["api-server", "--host", LOOPBACK, "--port", str(self.port), "--workers", "1"],
            "scheduler": ["scheduler", "--skip-serve-logs"],  # the API server reads the log files itself
            "dag-processor": ["dag-processor"],
            "triggerer": ["triggerer", "--skip-serve-logs"],
        }
        return [self._component(name, _program("airflow"), *words) for name, words in commands.items()]

    def _migrate(self) -> None:
        """Migrate the database to the schema of this Airflow, once per version: it takes eight seconds."""
        version = importlib.metadata.version("apache-airflow-core")
        stamp = self.state / "migrated"
        wanted = f"{version} {self._postgres.home}"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return
        migration = self._component("migrate", _program("airflow"), "db", "migrate")
        others = list(self._components)
        self._launch(migration)
        process = migration.process
        assert process is not None
        wait_until(lambda: process.poll() is not None, "airflow db migrate", others, START_SECONDS)
        if process.returncode:
            migration.check()
        self._components.remove(migration)
        stamp.write_text(wanted, encoding="utf-8")


def latest_scheduled_times(now: datetime.datetime, count: int) -> list[datetime.datetime]:
    """Return the latest firsts of a month, 03:00 UTC, that have passed, oldest first: the schedule of the demo.

    The latest one must be among those of a backfill: otherwise Airflow would start a run for it by itself.
    """
    scheduled = now.replace(day=1, hour=3, minute=0, second=0, microsecond=0)
    if scheduled > now:
        scheduled = _month_before(scheduled)
    times = [scheduled]
    while len(times) < count:
        times.append(_month_before(times[-1]))
    return times[::-1]


def _month_before(first: datetime.datetime) -> datetime.datetime:
    return (first - datetime.timedelta(days=1)).replace(day=1)


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe, contextlib.suppress(ConnectionRefusedError):
        probe.settimeout(1)
        probe.connect((LOOPBACK, port))
        raise UsageError(
            "another program uses this port",
            where=f"{LOOPBACK}:{port}",
            remedy="stop it, or choose another --port",
        )
