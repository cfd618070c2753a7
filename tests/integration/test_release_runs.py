"""Test releases in the whole stack: backfills, reruns, refusals, a user's approval, a killed worker.

One stack serves all tests, and all its runs are started at once: most of the time is Airflow's.
"""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pyarrow.parquet as pq
import pytest
from distributed import Client, Security

from tasks.config import load
from tasks.methods import graph
from tasks.series.ledger import Ledger
from tasks.stack import ApiError, Stack
from tasks.stack.announce import announce
from tasks.stack.processes import Component
from tasks.stack.settings import password_file
from tasks.store import Store, files_below
from tests.other_account import NOBODY, knock

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

DAGS = Path(__file__).parents[2] / "dags"
SNAPSHOTS = [datetime.date(2026, month, 1) for month in (2, 3, 4)]
LATEST = datetime.datetime(2026, 4, 1, 3, tzinfo=datetime.UTC)  # the newest tick of the schedule below
WAIT_SECONDS = 600.0

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
        # Seeds, since a person of one population must not appear in another.
        self.write("monthly", seed=1)
        self.write("signed", seed=2, approval=True)
        self.write("refused", seed=3, gate="homogeneity = 0.0")  # no interval ends at zero: always refused
        (self.dags / "releases" / "broken.toml").write_text(
            "[release]\nname = 'broken'\nshedule = '@daily'\n"
        )
        self.stack = PartlyMeasuredStack(root / "state", store=root / "store", dags=self.dags, workers=2)

    def write(self, name: str, *, seed: int, approval: bool = False, gate: str = "") -> None:
        text = RELEASE.format(name=name, seed=seed, approval=str(approval).lower(), gate=gate)
        (self.dags / "releases" / f"{name}.toml").write_text(text)

    @property
    def client(self):
        return self.stack.client

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


def kill_a_worker(stack: Stack) -> int:
    """Kill -9 one Dask worker, as the kernel does when memory runs out."""
    with connected(stack) as client:
        pids = sorted(client.run(os.getpid).values())
    assert len(pids) == stack.workers
    os.kill(pids[0], signal.SIGKILL)
    return pids[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Start the stack and, at once, all runs that the tests look at."""
    before = os.environ.get("MURMUR_SECRET_FILE")
    world = World(tmp_path_factory.mktemp("world"))
    try:
        with world.stack as stack:
            for name in ("monthly", "signed", "refused"):
                stack.wait_for_dag(f"release_{name}")
            world.backfill = stack.client.backfill("release_monthly", SNAPSHOTS[0], SNAPSHOTS[-1])
            days = [
                "--from-date",
                str(LATEST.date()),
                "--to-date",
                str(LATEST.date() + datetime.timedelta(days=1)),
            ]
            stack.airflow("backfill", "create", "--dag-id", "release_signed", *days)
            stack.client.unpause("release_signed")
            world.refused = stack.client.trigger("release_refused", LATEST)
            world.undated = stack.client.trigger("release_refused", None)
            yield world
    finally:
        world.stack.stop()
        world.stack.clean()
        os.environ.pop("MURMUR_SECRET_FILE")
        if before:
            os.environ["MURMUR_SECRET_FILE"] = before


def test_backfill(world):
    """A backfill makes every release although a Dask worker is killed."""
    first = world.run_of(SNAPSHOTS[0])["dag_run_id"]
    # With compiled kernels padding may be over between two looks; the worker then dies in a later step.
    begun = ("running", "success")
    wait_for(lambda: world.tasks_of(first, "monthly")["padding"]["state"] in begun, "padding")
    killed = kill_a_worker(world.stack)
    backfill = f"/backfills/{world.backfill}"
    wait_for(lambda: world.client.api("GET", backfill)["completed_at"], "all runs of the backfill")
    assert not psutil.pid_exists(killed)
    assert [run["state"] for run in world.client.runs("release_monthly")] == ["success"] * 3
    people = []
    for snapshot in SNAPSHOTS:
        manifest = json.loads(
            (world.stack.store.published("monthly", snapshot) / "manifest.json").read_text()
        )
        assert manifest["snapshot"] == str(snapshot)
        assert manifest["series"] == "checked"
        people.append(manifest["counts"]["users"])
    assert len({world.published(snapshot)["groups.parquet"] for snapshot in SNAPSHOTS}) == 3
    assert people[0] == 600
    assert people[0] + 50 <= people[1] <= people[2] - 50  # nobody leaves the series, and cohorts join it
    with Ledger.open(world.stack.store, "monthly") as ledger:
        assert [release.snapshot for release in ledger.releases()] == [str(day) for day in SNAPSHOTS]
        assert ledger.problems(world.stack.store) == []


def test_same_bytes_as_cli(world):
    """The command line publishes the same bytes as Airflow."""
    config, store = world.dags / "releases" / "monthly.toml", world.root / "other-store"
    command = [
        Path(sys.executable).with_name("murmur"),
        "run",
        config,
        "--snapshot",
        str(SNAPSHOTS[0]),
        "--store",
        store,
    ]
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["status"] == "published"
    assert comparable(Store(store).published("monthly", SNAPSHOTS[0])) == world.published(SNAPSHOTS[0])


def test_cleared_step(world):
    """A cleared step is made again with the same bytes."""
    run_id = world.run_of(SNAPSHOTS[1])["dag_run_id"]
    step = world.stack.store.private("monthly", SNAPSHOTS[1]) / "work" / "homogenization"
    before, release = files_below(step), world.published(SNAPSHOTS[1])
    shutil.rmtree(step)  # or the step would only find its earlier result
    body = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["homogenization"], "only_failed": False}
    world.client.api("POST", "/dags/release_monthly/clearTaskInstances", body)
    assert world.client.wait("release_monthly", run_id, WAIT_SECONDS) == "success"
    assert world.tasks_of(run_id, "monthly")["homogenization"]["try_number"] == 2
    assert len(before) > 1
    assert files_below(step) == before
    assert world.published(SNAPSHOTS[1]) == release


def test_asset_events(world):
    """Every release is announced as an asset event."""
    events = world.client.api("GET", "/assets/events?source_dag_id=release_monthly")["asset_events"]
    extras = {event["extra"]["snapshot"]: event["extra"] for event in events}
    assert sorted(extras) == [str(snapshot) for snapshot in SNAPSHOTS]
    assert {event["name"] for event in events} == {"murmur://monthly"}
    manifest = json.loads(
        (world.stack.store.published("monthly", SNAPSHOTS[0]) / "manifest.json").read_text()
    )
    event = extras[str(SNAPSHOTS[0])]
    assert {key: event["counts"][key] for key in manifest["counts"]} == manifest["counts"]
    assert len(event["digest"]) == 64


def test_approval(world):
    """A release with approval waits for a user's decision."""
    run_id = world.run_of(LATEST.date(), "signed")["dag_run_id"]
    details = f"/dags/release_signed/dagRuns/{run_id}/hitlDetails"
    wait_for(
        lambda: world.client.api("GET", details)["hitl_details"] or world.ended(run_id, "signed"),
        "the question",
    )
    assert not world.stack.store.published("signed", LATEST.date()).exists()
    (question,) = world.client.api("GET", details)["hitl_details"]
    report = Path(question["body"].split("`")[1])
    assert report.name == "report.html"
    assert report.exists()
    answer = f"/dags/release_signed/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    world.client.api("PATCH", answer, {"chosen_options": ["Approve"], "params_input": {}})
    assert world.client.wait("release_signed", run_id, WAIT_SECONDS) == "success"
    assert (world.stack.store.published("signed", LATEST.date()) / "manifest.json").exists()


def test_refused(world):
    """A refused release fails without a retry, and the log names the check."""
    assert world.client.wait("release_refused", world.refused, WAIT_SECONDS) == "failed"
    tasks = world.tasks_of(world.refused, "refused")
    assert tasks["validate"]["state"] == "failed"
    assert tasks["validate"]["try_number"] == 1
    assert tasks["publish"]["state"] == "upstream_failed"
    log = "\n".join(world.client.log("release_refused", world.refused, "validate", 1))
    assert "the gate refused this release" in log
    assert "homogeneity: " in log
    assert "report.html" in log
    assert not world.stack.store.published("refused", LATEST.date()).exists()


def test_no_logical_date(world):
    """A run without a logical date fails without a retry."""
    assert world.client.wait("release_refused", world.undated, WAIT_SECONDS) == "failed"
    tasks = world.tasks_of(world.undated, "refused")
    assert (tasks["ingest"]["state"], tasks["ingest"]["try_number"]) == ("failed", 1)
    assert "has no logical date" in "\n".join(world.client.log("release_refused", world.undated, "ingest", 1))


def test_params_fixed(world):
    """A run cannot be triggered with a smaller k."""
    body = {"logical_date": "2026-01-05T00:00:00Z", "conf": {"k": 2}}
    with pytest.raises(ApiError, match="Invalid input for param k"):
        world.client.api("POST", "/dags/release_monthly/dagRuns", body)


def test_broken_file(world):
    """A broken release file is shown as an import error and affects no other release."""
    (error,) = world.client.api("GET", "/importErrors")["import_errors"]
    assert error["filename"] == "release_errors.py"
    assert "broken.toml" in error["stack_trace"]
    assert "release.shedule: unknown key" in error["stack_trace"]
    dags = world.client.api("GET", "/dags")["dags"]
    names = ("monthly", "signed", "refused")
    assert {dag["dag_id"] for dag in dags} == {
        f"{does}_{name}" for name in names for does in ("release", "withdraw")
    }


def test_xcom_references(world):
    """Tasks pass references to each other, never data."""
    run_id = world.run_of(SNAPSHOTS[0])["dag_run_id"]
    for step in graph(load(world.dags / "releases" / "monthly.toml")):
        place = f"/dags/release_monthly/dagRuns/{run_id}/taskInstances/{step}/xcomEntries/return_value"
        value = world.client.api("GET", place)["value"]
        value = json.loads(value) if isinstance(value, str) else value
        assert set(value) == {"step", "path", "digest", "counts"}
        assert len(json.dumps(value)) < 2000


def test_logs_hold_no_ids(world):
    """No log holds a source user id."""
    people = pq.read_table(
        world.stack.store.private("monthly", SNAPSHOTS[0]) / "membership.parquet", columns=["user"]
    )
    names = re.compile(
        rb"\b(" + b"|".join(re.escape(str(name).encode()) for name in people["user"].to_pylist()) + rb")\b"
    )
    logs = [path for path in world.stack.state.rglob("*.log") if path.is_file()]
    assert len(logs) > 40
    assert [path.name for path in logs if names.search(path.read_bytes())] == []


def test_withdrawal(world):
    """A snapshot is taken back from Airflow: a tombstone takes its place, and the asset says so."""
    conf = {"snapshot": str(SNAPSHOTS[2]), "reason": "the scale was wrong"}
    started = world.client.api("POST", "/dags/withdraw_monthly/dagRuns", {"logical_date": None, "conf": conf})
    assert world.client.wait("withdraw_monthly", started["dag_run_id"], WAIT_SECONDS) == "success"
    place = world.stack.store.published("monthly", SNAPSHOTS[2])
    assert [file.name for file in place.iterdir()] == ["tombstone.json"]
    (event,) = world.client.api("GET", "/assets/events?source_dag_id=withdraw_monthly")["asset_events"]
    assert event["name"] == "murmur://monthly"
    said = {key: event["extra"][key] for key in ("state", "snapshot", "reason")}
    assert said == {"state": "withdrawn", **conf}
    with pytest.raises(ApiError, match="Invalid input for param"):
        world.client.api("POST", "/dags/withdraw_monthly/dagRuns", {"logical_date": None, "conf": {}})


def test_withdrawal_on_the_command_line_is_announced(world, monkeypatch):
    """`murmur withdraw` sends the same event through the API, where it is told of this Airflow."""
    monkeypatch.setenv("MURMUR_AIRFLOW", world.stack.url)
    monkeypatch.setenv("MURMUR_AIRFLOW_PASSWORD_FILE", str(password_file(world.stack.state)))
    extra = {"state": "withdrawn", "snapshot": str(SNAPSHOTS[2]), "reason": "told twice"}
    assert announce({"asset": "murmur://monthly", "extra": extra})["event_sent"]
    events = world.client.api("GET", "/assets/events")["asset_events"]
    (event,) = [one for one in events if (one["extra"] or {}).get("reason") == "told twice"]
    assert event["name"] == "murmur://monthly"


def test_login(world):
    """Nobody sees or changes anything in Airflow without the password, which the owner alone can read."""
    url = world.stack.url
    for method, path in (("GET", "dags"), ("POST", "dags/release_monthly/dagRuns"), ("GET", "variables")):
        assert httpx.request(method, f"{url}/api/v2/{path}", json={}).status_code == 401
    assert httpx.get(f"{url}/auth/token").status_code == 403  # a token for everybody
    guess = httpx.post(f"{url}/auth/token", json={"username": "admin", "password": "admin"})
    assert guess.status_code == 401
    password = json.loads((world.stack.state / "airflow" / "passwords.json").read_text())["admin"]
    login = httpx.post(f"{url}/auth/token", json={"username": "admin", "password": password})
    token = {"Authorization": f"Bearer {login.json()['access_token']}"}
    assert httpx.get(f"{url}/api/v2/dags", headers=token).status_code == 200
    logs = [path.read_text(errors="replace") for path in world.stack.state.rglob("*.log") if path.is_file()]
    assert not any(password in text for text in logs)


def test_secrets_are_the_owners(world):
    """Keys, certificates and passwords of the stack are closed to other accounts."""
    state = world.stack.state
    for name in (
        "certificates/dask.key",
        "certificates/dask.crt",
        "airflow/passwords.json",
        "airflow/keys.json",
    ):
        assert (state / name).stat().st_mode & 0o777 == 0o600
        assert (state / name).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
@pytest.mark.parametrize("uid", [NOBODY, NOBODY - 1])
def test_other_account(world, uid):
    """Another account can connect neither to Dask nor to PostgreSQL, not even the one that PostgreSQL runs as."""
    stack = world.stack
    with connected(stack) as client:
        info = client.scheduler_info(n_workers=-1)
    addresses = [info["address"], *info["workers"], *(w["nanny"] for w in info["workers"].values())]
    assert len(addresses) == 1 + 2 * stack.workers
    owner = tuple(Path(stack.environment[f"MURMUR_DASK_{name}"]).read_text() for name in ("CERT", "KEY"))
    socket = stack._postgres.socket_directory
    found = knock(addresses, owner, uid=uid, postgres=socket)
    for address in addresses:
        assert found[address].pop("the owner's certificate") == "accepted"
        assert set(found[address].values()) == {"refused"}
    assert "Permission denied" in found["postgres"]["why"]
    # Even where the directories were open, PostgreSQL itself refuses other accounts.
    modes = {place: place.stat().st_mode for place in (socket.parent, socket)}
    try:
        for place in modes:
            place.chmod(0o755)
        assert "Peer authentication failed" in knock([], owner, uid=uid, postgres=socket)["postgres"]["why"]
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
    assert knock([], owner, uid=None, postgres=socket)["postgres"] == {"socket": "accepted"}


def test_loopback_only(world, left_behind):
    """Every component listens on the loopback address only."""
    processes = [psutil.Process(int(pid)) for pid in left_behind(world.root)]
    sockets = [s for p in processes for s in p.net_connections("inet") if s.status == psutil.CONN_LISTEN]
    assert len(sockets) >= 4  # Airflow's API, Dask's scheduler and workers
    assert {s.laddr.ip for s in sockets} == {"127.0.0.1"}


def test_stop(world, left_behind):
    """Stopping the stack leaves no process."""
    database = (world.stack.state / "postgres").readlink()
    assert len(left_behind(world.root, database)) > 8  # the search does find them while they run
    begun = time.monotonic()
    world.stack.stop()
    assert time.monotonic() - begun < 25
    assert left_behind(world.root, database) == []


def wait_for(condition, what: str, timeout: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(1)  # every look costs Airflow a few hundredths of a second
