"""Run `make containers`: build the image, bring compose.yaml up, publish with it, attack it, and remove everything.

Two releases are made at the same time: one run, and a backfill of two snapshots, while the process of one Dask worker's
container is killed. The published files must be those of `murmur run` with the same secret.
"""

import argparse
import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.same_release import find_differences, find_releases
from docker import confinement
from docker.compose_file import read
from docker.containers import (
    STOPPING,
    ContainerError,
    Engine,
    Project,
    find_engine,
    project_name,
    remove_abandoned,
    removed_afterwards,
)
from docker.images import BUILT, Images, build
from docker.secret_files import UI_USER, make_secrets
from tasks.errors import MurmurError
from tasks.stack.client import AirflowClient, ApiError
from tasks.stack.processes import StackError
from tasks.stack.supervisor import latest_scheduled_times
from tasks.store import files_below, read_json, write_bytes

HERE = Path(__file__).parent
STORAGE = HERE.parent / ".stack" / "containers"
UID = 10001
RUN_SECONDS = 1800.0
POLL_SECONDS = 1.0
MEBIBYTE = 2**20

RELEASE = """
[release]
name = "{name}"
schedule = "0 3 1 * *"
start_date = 2026-01-01
[source]
format = "synthetic"
[source.synthetic]
users = 600
items = 200
ratings_per_user = 30.0
churn = 0.2
seed = {seed}
"""
# Seeds, since a person of one population must not appear in another.
RELEASES = {"single": RELEASE.format(name="single", seed=1), "series": RELEASE.format(name="series", seed=2)}
DAYS_OF_SERIES = 2


class Record:
    """Print what happens, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self, line: str) -> None:
        """Print one line."""
        sys.stdout.write(f"{time.monotonic() - self._begun:7.1f} s  {line}\n")
        sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run everything; return 0 only where all of it held."""
    parser = argparse.ArgumentParser(prog="python -m docker.run_topology", description=__doc__)
    parser.add_argument("--keep-image", action="store_true", help="keep the image that was built")
    parser.add_argument("--image", help="run an image that was built before, such as murmuration:run-4711")
    options = parser.parse_args(arguments)
    record = Record()
    for number in STOPPING:
        signal.signal(number, _interrupt)
    try:
        engine = find_engine(STORAGE)
        with tempfile.TemporaryDirectory(prefix="murmuration-topology-") as place:
            try:
                run(engine, Path(place), record, options.image)
            finally:
                if not (options.keep_image or options.image):
                    engine.call("rmi", "--force", f"{BUILT}:{_version()}", check=False)
    except MurmurError as error:
        record(f"failed: {error}")
        if isinstance(error.__context__, MurmurError):  # the removal failed after something else had
            record(f"after: {error.__context__}")
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        record("stopped; all containers, networks and volumes are removed")
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    record("everything held; all containers, networks and volumes are removed")
    return 0


def run(engine: Engine, place: Path, record: Record, image: str | None = None) -> None:
    """Build, start, publish, look, compare."""
    for name in remove_abandoned(engine):
        record(f"removed what {name} had left")
    record(f"building with {engine.text('--version')}")
    images = build(engine, image or f"{BUILT}:{_version()}", is_built=bool(image))
    megabytes = int(engine.text("image", "inspect", "--format", "{{.Size}}", images.services)) / 1e6
    record(f"built {images.services} on {images.base}: {megabytes:,.0f} MB")
    variables, secrets = prepare(place, images)
    topology = read(HERE / "compose.yaml", variables)
    with removed_afterwards(Project(engine, topology, project_name(os.getpid()))) as project:
        for service, seconds in project.start():
            record(f"started {service} ({seconds:.0f} s)")
        examine(project, images, int(variables["AIRFLOW_PORT"]), place, record)
    record("everything is removed; the same snapshots by `murmur run`")
    compare(place, secrets / "pseudonym_key", record)


def examine(project: Project, images: Images, port: int, place: Path, record: Record) -> None:
    """Publish with the services that run, look at them from inside and outside, and copy the store."""
    secrets, url = place / "secrets", f"http://127.0.0.1:{port}"
    long_running = [name for name, service in project.topology.services.items() if service.health]
    for service in long_running:
        project.wait(service)
    record("all services are healthy")
    for service in long_running:
        record(f"confined as compose.yaml says: {service} {confinement.look_inside(project, service)}")
    record(f"Airflow answers {confinement.ask_the_ui(url, secrets / 'airflow_passwords.json')}")
    for address, found in confinement.knock_at_dask(project, images.services, secrets).items():
        record(f"{address}: {found}")
    publish(project, AirflowClient(url, login=lambda: (UI_USER, _password(secrets))), record)
    record(f"no secret in {confinement.find_secrets_in_logs(project, secrets):,} bytes of logs")
    copy_store(project, place / "containers")


def prepare(place: Path, images: Images) -> tuple[dict[str, str], Path]:
    """Write release files and secrets, and return the variables of compose.yaml."""
    secrets = place / "secrets"
    make_secrets(secrets)
    for file in (*secrets.iterdir(), secrets):
        os.chown(file, UID, UID)
    for name in ("releases", "sources"):
        (place / name).mkdir()
        (place / name).chmod(0o755)
    place.chmod(0o711)
    for name, text in RELEASES.items():
        file = place / "releases" / f"{name}.toml"
        write_bytes(file, text.encode())
        file.chmod(0o644)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {
        "MURMUR_VERSION": images.services.partition(":")[2],
        "POSTGRES_IMAGE": images.postgres,
        "MURMUR_SECRETS": str(secrets),
        "MURMUR_RELEASES": str(place / "releases"),
        "MURMUR_SOURCES": str(place / "sources"),
        "AIRFLOW_PORT": str(port),
    }
    return variables, secrets


def publish(project: Project, client: AirflowClient, record: Record) -> None:
    """Make one release and a backfill of two, and kill a worker's container while they run."""
    single, series = "release_single", "release_series"
    _wait(lambda: client.has_dag(single) and client.has_dag(series), "both DAGs")
    newest = latest_scheduled_times(datetime.datetime.now(datetime.UTC), DAYS_OF_SERIES)
    backfill = client.backfill(series, newest[0].date(), newest[-1].date())
    runs = {client.trigger(single, newest[-1]): single}
    record(f"triggered {single} for {newest[-1].date()}, backfill of {series} from {newest[0].date()}")
    _wait(lambda: len(client.runs(series)) == DAYS_OF_SERIES, "runs of the backfill")
    runs |= {one["dag_run_id"]: series for one in client.runs(series)}
    first = client.runs(series)[0]["dag_run_id"]

    def computing() -> bool:
        states = {task["task_id"]: task["state"] for task in client.tasks(series, first)}
        return states.get("padding") in ("running", "success")

    _wait(computing, "the step padding")
    victim = project.containers("dask-worker")[0]
    record(f"killed {kill(project, victim)} of {victim} while padding ran")
    for run_id, dag in runs.items():
        state = client.wait(dag, run_id, RUN_SECONDS)
        record(f"{dag} {run_id}: {state}")
        if state != "success":
            raise ContainerError(f"{dag} failed", where=run_id, remedy=_explain(client, dag, run_id))
    _wait(
        lambda: bool(client.api("GET", f"/backfills/{backfill}")["completed_at"]), "the end of the backfill"
    )
    project.wait("dask-worker")
    record(f"{victim} runs again, restarted {project.inspect(victim, 'RestartCount')} times")


def kill(project: Project, container: str) -> str:
    """Kill the first process of a container as the kernel would where memory ran out, and wait until it is back."""
    before = project.inspect(container, "State.Pid")
    os.kill(int(before), signal.SIGKILL)

    def is_back() -> bool:
        return project.inspect(container, "State.Pid") not in ("0", before)

    _wait(is_back, f"the restart of {container}")
    return f"process {before}"


def _explain(client: AirflowClient, dag: str, run_id: str) -> str:
    failed = [task for task in client.tasks(dag, run_id) if task["state"] == "failed"]
    return "\n".join(
        line for task in failed for line in client.log(dag, run_id, task["task_id"], task["try_number"])[-40:]
    )


def copy_store(project: Project, target: Path) -> None:
    """Copy the store out of its volume."""
    scheduler = project.containers("scheduler")[0]
    archive = project.engine.call("exec", scheduler, "tar", "--create", "--directory=/store", ".").stdout
    target.mkdir(mode=0o700)
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")


def compare(place: Path, secret: Path, record: Record) -> None:
    """Make the same releases on this machine, oldest first, and compare every published file."""
    containers, machine = place / "containers", place / "machine"
    program = str(Path(sys.executable).with_name("murmur"))
    mine = place / "secret"
    shutil.copyfile(secret, mine)
    mine.chmod(0o600)
    environment = {**os.environ, "MURMUR_SECRET_FILE": str(mine)}
    releases = find_releases(containers)
    if len(releases) != 1 + DAYS_OF_SERIES:
        raise ContainerError(
            f"{len(releases)} releases were published", where="store", remedy="read the logs"
        )
    for name in sorted(releases):
        table, _, snapshot = name.partition("/")
        config = str(place / "releases" / f"{table}.toml")
        command = [program, "run", config, "--snapshot", snapshot, "--store", str(machine), "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ContainerError(f"murmur run failed: {done.stderr[-2000:]}", where=name, remedy="see above")
    others = find_releases(machine)
    for name, release in releases.items():
        lines = [*find_differences(release, others[name]), *differing_files(release, others[name])]
        if lines:
            raise ContainerError(f"{name} differs: {'; '.join(lines)}", where="published", remedy="see above")
        record(f"{name}: the same {len(files_below(release))} files as `murmur run`")


def differing_files(one: Path, other: Path) -> Iterator[str]:
    """Yield what differs between all files of two releases; the manifest without its time and the code's version."""
    first, second = files_below(one), files_below(other)
    for name in sorted((first.keys() ^ second.keys()) | {n for n in first if first[n] != second.get(n)}):
        if name != "manifest.json" or _told(one) != _told(other):
            yield f"{name}: other bytes"


def _told(release: Path) -> dict[str, Any]:
    manifest = read_json(release / "manifest.json")
    return {key: value for key, value in manifest.items() if key not in ("created_at", "code_version")}


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        try:
            if condition():
                return
        except ApiError as error:
            if error.status < 500:
                raise
        except StackError:
            pass  # the API server restarts, or is busy
        if time.monotonic() > deadline:
            raise ContainerError(f"{what} did not come", where="Airflow", remedy="read the logs")
        time.sleep(POLL_SECONDS)


def _password(secrets: Path) -> str:
    return read_json(secrets / "airflow_passwords.json")[UI_USER]


def _version() -> str:
    return f"run-{os.getpid()}"


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    sys.exit(main())
