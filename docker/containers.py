"""Run the services of compose.yaml in containers of Docker or Podman, under a name of their own, and remove them all.

Everything made carries the project's label, so that what a killed program left behind is found and removed as well.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker.compose_file import Mount, Service, Topology
from tasks.errors import MurmurError

LABEL = "murmuration.project"
LOG_LINES = 30
POLL_SECONDS = 2.0
LISTINGS = {"container": ["ps", "--all"], "network": ["network", "ls"], "volume": ["volume", "ls"]}
COMMAND_SECONDS = 900.0
MOST = 8192  # open files, and processes of all containers together: they have one user
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How much longer than compose.yaml says a service may take until it is healthy: other programs use the machine, too.
PATIENCE = float(os.environ.get("MURMUR_PATIENCE", "3"))


class ContainerError(MurmurError):
    """Report that containers cannot be used, or that one of them failed."""

    exit_code = 1


class Engine:
    """Call Docker or Podman."""

    def __init__(self, program: str, environment: dict[str, str] | None = None) -> None:
        self.program = program
        self._environment = {**os.environ, **(environment or {})}

    @property
    def is_podman(self) -> bool:
        """Return whether this is Podman, whose options for builds differ."""
        return self.program == "podman"

    def call(
        self,
        *arguments: str,
        check: bool = True,
        stdin: bytes | None = None,
        seconds: float = COMMAND_SECONDS,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one command; a session of its own keeps Ctrl-C from it, so that it ends what it has begun."""
        command = [self.program, *arguments]
        done = subprocess.run(
            command,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            env=self._environment,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
        if check and done.returncode:
            raise ContainerError(
                f"{self.program} {arguments[0]} failed: {_tail(done.stderr + done.stdout)}",
                where=" ".join(arguments[-3:]),
                remedy="read the lines above",
            )
        return done

    def text(self, *arguments: str) -> str:
        """Return what a command prints, stripped."""
        return self.call(*arguments).stdout.decode(errors="replace").strip()

    def has_image(self, image: str) -> bool:
        """Test whether an image is in the engine's storage."""
        return self.call("image", "inspect", image, check=False).returncode == 0


def find_engine(storage: Path) -> Engine:
    """Return Docker where its daemon answers, else Podman with images and containers below `storage`."""
    engine = None
    if shutil.which("docker") and Engine("docker").call("info", check=False).returncode == 0:
        engine = Engine("docker")
    elif not shutil.which("podman"):
        raise ContainerError(
            "neither Docker nor Podman can be used",
            where="PATH",
            remedy="start Docker's daemon, or install podman (on Debian: apt install podman runc)",
        )
    if os.geteuid() != 0:
        raise ContainerError(
            "only root can give secrets to the containers' user and kill their processes",
            where=f"uid {os.geteuid()}",
            remedy="run make as root",
        )
    return engine or Engine("podman", _podman_environment(storage))


def _podman_environment(storage: Path) -> dict[str, str]:
    """Return the environment of a Podman that needs neither systemd nor the limits of a whole machine."""
    storage.mkdir(mode=0o700, parents=True, exist_ok=True)
    driver = os.environ.get("MURMUR_STORAGE_DRIVER") or ("overlay" if _can_overlay(storage) else "vfs")
    # Sockets below it have paths of at most 107 characters.
    run = Path("/run") / f"murmuration-{storage.stat().st_ino:x}"
    files = {
        "CONTAINERS_STORAGE_CONF": f'[storage]\ndriver = "{driver}"\ngraphroot = "{storage / driver}"\n'
        f'runroot = "{run}"\n',
        "CONTAINERS_CONF": f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'{_runtime()}[containers]\nlog_driver = "k8s-file"\ndefault_ulimits = {json.dumps(_ulimits())}\n',
    }
    for name, text in files.items():
        (storage / f"{name.lower()}.toml").write_text(text)
    return {name: str(storage / f"{name.lower()}.toml") for name in files}


def _runtime() -> str:
    return 'runtime = "runc"\n' if shutil.which("runc") else ""


def _ulimits() -> list[str]:
    """Return limits that a root without all privileges may set, as Podman's defaults are not."""
    limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {name: resource.getrlimit(which)[1] for name, which in limits.items()}
    chosen = {name: MOST if at == resource.RLIM_INFINITY else min(at, MOST) for name, at in hard.items()}
    return [f"{name}={limit}:{limit}" for name, limit in chosen.items()]


def _can_overlay(place: Path) -> bool:
    """Test whether the kernel mounts overlays here; without them every container copies its whole image."""
    directories = {name: place / f"probe-{name}" for name in ("lower", "upper", "work", "merged")}
    for directory in directories.values():
        directory.mkdir(exist_ok=True)
    try:
        options = ",".join(f"{n}dir={directories[n]}" for n in ("lower", "upper", "work"))
        command = ["mount", "-t", "overlay", "overlay", "-o", options, str(directories["merged"])]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", str(directories["merged"])], capture_output=True, check=True)
        return True
    finally:
        for directory in directories.values():
            shutil.rmtree(directory, ignore_errors=True)


class Project:
    """Hold the containers, networks and volumes of one topology."""

    def __init__(self, engine: Engine, topology: Topology, name: str) -> None:
        self.engine, self.topology, self.name = engine, topology, name
        self._label = f"--label={LABEL}={name}"
        self._started: dict[str, float] = {}

    def containers(self, service: str) -> list[str]:
        """Return the names of the containers of a service."""
        return [f"{self.name}-{service}-{n}" for n in range(1, self.topology.services[service].replicas + 1)]

    def start(self) -> Iterator[tuple[str, float]]:
        """Start every service when those it needs are ready; yield each with the seconds since the beginning."""
        begun = time.monotonic()
        for network, internal in self.topology.networks.items():
            options = ["--internal"] if internal else []
            self.engine.call("network", "create", self._label, *options, self._own(network))
        for volume in self.topology.volumes:
            self.engine.call("volume", "create", self._label, self._own(volume))
        for service in self.topology.services.values():
            for other, condition in service.needs.items():
                self.wait(other, condition)
            for container in self.containers(service.name):
                self._create(service, container)
                self.engine.call("start", container)
            yield service.name, time.monotonic() - begun

    def _create(self, service: Service, container: str) -> None:
        # A network that leads outside comes first: its address is the one that ports are forwarded to.
        first, *others = sorted(service.networks, key=lambda network: self.topology.networks[network])
        command = ["create", f"--name={container}", self._label, f"--hostname={container}", *service.options]
        command += ["--pull=never", f"--network={self._own(first)}", f"--network-alias={service.name}"]
        command += [f"--volume={self._mount(mount)}" for mount in service.mounts]
        if self.engine.is_podman and service.limits.read_only:
            command.append("--read-only-tmpfs=false")  # Docker mounts nothing that compose.yaml does not name
        self.engine.call(*command, service.image, *service.command)
        for network in others:
            self.engine.call("network", "connect", "--alias", service.name, self._own(network), container)

    def _mount(self, mount: Mount) -> str:
        source = self._own(mount.source) if mount.is_volume else mount.source
        return f"{source}:{mount.target}{':ro' if mount.read_only else ''}"

    def _own(self, name: str) -> str:
        return f"{self.name}_{name}"

    def wait(self, service: str, condition: str = "service_healthy") -> None:
        """Wait until a service is healthy, or has completed."""
        health = self.topology.services[service].health
        for container in self.containers(service):
            if condition == "service_completed_successfully":
                code = self.engine.text("wait", container)
                if code != "0":
                    raise self.failure(container, f"ended with exit code {code}")
            elif condition == "service_healthy" and health:
                deadline = time.monotonic() + health.patience * PATIENCE
                while not self.is_healthy(service, container):
                    if self.state(container) == "exited":
                        raise self.failure(container, "has ended")
                    if time.monotonic() > deadline:
                        raise self.failure(
                            container, f"is not healthy after {health.patience * PATIENCE:.0f} s"
                        )
                    time.sleep(POLL_SECONDS)

    def is_healthy(self, service: str, container: str) -> bool:
        """Run the health check that compose.yaml declares. (Podman would need systemd to run it by itself.)"""
        health = self.topology.services[service].health
        assert health
        try:
            done = self.engine.call(
                "exec", container, *health.command, check=False, seconds=health.timeout * PATIENCE
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def inspect(self, container: str, field: str) -> str:
        """Return a field of a container, such as State.Pid."""
        return self.engine.text("inspect", "--format", f"{{{{.{field}}}}}", container)

    def state(self, container: str) -> str:
        """Return "running", "exited", …"""
        return self.inspect(container, "State.Status")

    def log(self, container: str) -> bytes:
        """Return everything that a container printed."""
        done = self.engine.call("logs", container, check=False)
        return done.stdout + done.stderr

    def failure(self, container: str, what: str) -> ContainerError:
        """Return an error with the end of a container's log."""
        return ContainerError(
            f"{container} {what}:\n{_tail(self.log(container))}", where=container, remedy="read its log above"
        )

    def run(self, image: str, network: str, *options: str, stdin: bytes | None = None) -> bytes:
        """Run a container of our own beside the services and return what it prints; `options` end with its command."""
        name = f"{self.name}-beside-{time.monotonic_ns()}"
        beside = ["run", "--rm", "--interactive", "--pull=never", f"--name={name}", self._label]
        split = options.index("--") if "--" in options else 0
        chosen, command = options[:split], options[split + 1 :] if "--" in options else options
        return self.engine.call(
            *beside, f"--network={self._own(network)}", *chosen, image, *command, stdin=stdin
        ).stdout

    def remove(self) -> None:
        """Remove every container, network and volume of this project, also those that it does not know of."""
        for kind, removal in (
            ("container", ["rm", "--force", "--volumes"]),
            ("network", ["network", "rm"]),
            ("volume", ["volume", "rm", "--force"]),
        ):
            found = self.left(kind)
            if found and kind == "container":
                self.engine.call(
                    "kill", *found, check=False
                )  # nothing of them is kept: no need to end in peace
            if found:
                self.engine.call(*removal, *found, check=False)
        left = self.left(*LISTINGS)
        if left:
            raise ContainerError(
                f"not removed: {', '.join(left)}", where=self.name, remedy="remove them by hand"
            )

    def left(self, *kinds: str) -> list[str]:
        """Return what the engine still lists with this project's label."""
        label = f"--filter=label={LABEL}={self.name}"
        return [one for kind in kinds for one in self.engine.text(*LISTINGS[kind], "--quiet", label).split()]


def project_name(process: int) -> str:
    """Return the name of the project of a process of this machine."""
    return f"murmuration-{process}"


def remove_abandoned(engine: Engine) -> list[str]:
    """Remove the projects of processes that were killed before they could do so, and return their names."""
    listed = [
        engine.text(*LISTINGS[kind], f"--filter=label={LABEL}", f"--format={{{{.{field}}}}}")
        for kind, field in (("container", "Names"), ("network", "Name"), ("volume", "Name"))
    ]
    processes = {int(found) for found in re.findall(rf"\b{project_name(0)[:-1]}(\d+)", "\n".join(listed))}
    names = [project_name(one) for one in sorted(processes) if not Path(f"/proc/{one}").exists()]
    for name in names:
        Project(engine, Topology({}, {}, []), name).remove()
    return names


@contextmanager
def removed_afterwards(project: Project) -> Iterator[Project]:
    """Remove a project when the block ends, however it ends; Ctrl-C during the removal does not stop it."""
    try:
        yield project
    finally:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPPING}
        try:
            project.remove()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-LOG_LINES:])
