"""Hold the stack that the integration tests share: its releases, runs, and helpers to look at them."""

import contextlib
import datetime
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, Security

from tasks.stack import Stack
from tasks.stack.client import AirflowClient
from tasks.stack.processes import Component
from tasks.stack.supervisor import BUSY_IDLE_SECONDS
from tasks.store import files_below

DAGS = Path(__file__).parents[2] / "dags"
SNAPSHOTS = [datetime.date(2026, month, 1) for month in (2, 3, 4)]
LATEST = datetime.datetime(2026, 4, 1, 3, tzinfo=datetime.UTC)  # the newest tick of the schedule below
WAIT_SECONDS = float(os.environ.get("MURMUR_STACK_WAIT", "600"))  # longer where others use the machine, too

ALERTED = """
[alerts]
on = ["refused", "failed", "approval"]
webhook_connection = "murmur_alerts"
"""
RELEASE = """
[release]
name = "{name}"
schedule = "0 3 1 2-4 *"
approval = {approval}
[source]
format = "synthetic"
[source.synthetic]
users = 600
items = 200
ratings_per_user = 30.0
churn = 0.2
seed = {seed}
[gate]
{gate}
"""


class PartlyMeasuredStack(Stack):
    """Measure coverage only where our code runs: it makes Airflow's and Dask's own components much slower."""

    def _component(self, name: str, *command: str) -> Component:
        component = super()._component(name, *command)
        if name in ("migrate", "api-server", "triggerer", "dask-scheduler"):
            for variable in [key for key in component.environment if key.startswith("COVERAGE_")]:
                del component.environment[variable]
        return component


class World:
    """Hold a running stack with three releases and one broken release file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.secret = root / "secret.key"
        self.secret.write_bytes(b"w" * 32)  # the same groups every time: no release near a threshold by luck
        self.secret.chmod(0o600)
        os.environ["MURMUR_SECRET_FILE"] = str(self.secret)
        self.dags = root / "dags"
        # Links, so that coverage measures the project's own DAG files.
        shutil.copytree(
            DAGS, self.dags, ignore=shutil.ignore_patterns("*.toml", "__pycache__"), copy_function=os.symlink
        )
        (self.dags / "releases").mkdir(exist_ok=True)
        shutil.copyfile(Path(__file__).with_name("hostile_dag.py"), self.dags / "hostile_dag.py")
        # Seeds, since a person of one population must not appear in another.
        self.write("monthly", seed=1)
        self.write("signed", seed=2, approval=True, more=ALERTED)
        self.write(
            "refused", seed=3, gate="homogeneity = 0.0", more=ALERTED
        )  # no interval ends at zero: always refused
        (self.dags / "releases" / "broken.toml").write_text(
            "[release]\nname = 'broken'\nshedule = '@daily'\n"
        )
        # Its first snapshot is published under the usual limits, before Airflow knows the release.
        self.write("waiting", seed=4)
        self.first_of_waiting = self.begin_run("waiting", SNAPSHOTS[0], root / "store")
        self.stack = PartlyMeasuredStack(
            root / "state", store=root / "store", dags=self.dags, workers=2, idle_seconds=BUSY_IDLE_SECONDS
        )

    def write(self, name: str, *, seed: int, approval: bool = False, gate: str = "", more: str = "") -> None:
        text = RELEASE.format(name=name, seed=seed, approval=str(approval).lower(), gate=gate) + more
        (self.dags / "releases" / f"{name}.toml").write_text(text)

    def begin_run(self, name: str, snapshot: datetime.date, store: Path) -> subprocess.Popen:
        """Start `murmur run` beside the stack."""
        config = self.root / f"{name}-first.toml"
        shutil.move(self.dags / "releases" / f"{name}.toml", config)
        program = str(Path(sys.executable).with_name("murmur"))
        command = [program, "run", str(config), "--snapshot", str(snapshot)]
        return subprocess.Popen([*command, "--store", str(store), "--json"], stdout=subprocess.DEVNULL)

    @property
    def client(self) -> AirflowClient:
        return self.stack.client

    def note_of(self, run_id: str, name: str) -> str:
        """Return the note of a run that has ended; the scheduler writes it in the same transaction."""
        return self.client.api("GET", f"/dags/release_{name}/dagRuns/{run_id}")["note"]

    def published(self, snapshot: datetime.date, name: str = "monthly") -> dict[str, str]:
        return comparable(self.stack.store.published(name, snapshot))

    def run_of(self, snapshot: datetime.date, name: str = "monthly") -> dict:
        (run,) = (
            r
            for r in self.client.runs(f"release_{name}")
            if (r["logical_date"] or "").startswith(str(snapshot))
        )
        return run

    def ended(self, run_id: str, name: str) -> bool:
        return self.client.api("GET", f"/dags/release_{name}/dagRuns/{run_id}")["state"] in (
            "success",
            "failed",
        )

    def tasks_of(self, run_id: str, name: str) -> dict[str, dict]:
        return {task["task_id"]: task for task in self.client.tasks(f"release_{name}", run_id)}


def comparable(release: Path) -> dict[str, str]:
    """Return digests of the published files; the manifest without the time and the code's version."""
    files = files_below(release)
    manifest = json.loads((release / "manifest.json").read_text())
    files["manifest.json"] = json.dumps(
        {k: v for k, v in manifest.items() if k not in ("created_at", "code_version")}
    )
    return files


def connected(stack: Stack) -> Client:
    """Return a client of the stack's Dask scheduler."""
    ca, certificate, key = (stack.environment[f"MURMUR_DASK_{name}"] for name in ("CA", "CERT", "KEY"))
    security = Security(
        tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
    )
    return Client(stack.environment["MURMUR_DASK"], set_as_default=False, security=security)


def kill_a_worker(stack: Stack) -> psutil.Process:
    """Kill -9 one Dask worker, as the kernel does when memory runs out."""
    with connected(stack) as client:
        pids = sorted(client.run(os.getpid).values())
    assert len(pids) == stack.workers
    worker = psutil.Process(pids[0])
    worker.kill()
    return worker


@contextlib.contextmanager
def webhook() -> Iterator[list[dict[str, Any]]]:
    """Receive alerts on this machine; the connection `murmur_alerts` of every stack started inside leads here."""
    taken: list[dict[str, Any]] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Keep quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,))
        thread.start()
        address = {"conn_type": "http", "host": "http://127.0.0.1", "port": server.server_address[1]}
        os.environ["AIRFLOW_CONN_MURMUR_ALERTS"] = json.dumps(address)
        try:
            yield taken
        finally:
            del os.environ["AIRFLOW_CONN_MURMUR_ALERTS"]
            server.shutdown()
            thread.join()


def wait_for(condition, what: str, timeout: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(1)  # every look costs Airflow a few hundredths of a second
