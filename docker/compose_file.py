"""Read compose.yaml as the options of `docker create` and `podman create`.

`make containers` starts what production starts, so the services are described once. A key that is not understood here
is refused: what stands in compose.yaml and is not applied would be a promise that nobody tests. (podman-compose, on the
Podman of Debian 12, starts services before those they depend on are healthy.)
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from tasks.errors import UsageError

VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::-([^}]*))?\}|)")
SIZES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
SECRETS = "/run/secrets"
# Read where they are used, not passed on as options of one container.
ELSEWHERE = {
    "image",
    "build",
    "command",
    "networks",
    "volumes",
    "secrets",
    "depends_on",
    "healthcheck",
    "deploy",
}


@dataclass(frozen=True)
class Mount:
    """Hold one mount: a named volume, or a file or directory of the host."""

    source: str
    target: str
    is_volume: bool
    read_only: bool


@dataclass(frozen=True)
class Health:
    """Hold a health check: a command that succeeds inside a healthy container, and how long to wait for that."""

    command: list[str]
    interval: float
    timeout: float
    patience: float  # the start period, and all retries


@dataclass(frozen=True)
class Limits:
    """Hold what the kernel must enforce for a container."""

    memory_bytes: int
    processes: int
    cpus: float
    user: int
    read_only: bool


@dataclass(frozen=True)
class Service:
    """Hold one service; `options` do not depend on the project's name."""

    name: str
    image: str
    is_built: bool
    command: list[str]
    options: list[str]
    mounts: list[Mount]
    networks: list[str]
    needs: dict[str, str]  # another service, and its condition
    health: Health | None
    replicas: int
    limits: Limits


@dataclass(frozen=True)
class Topology:
    """Hold all services in an order in which they can start, networks (internal?) and volumes."""

    services: dict[str, Service]
    networks: dict[str, bool]
    volumes: list[str]


def read(path: Path, variables: Mapping[str, str]) -> Topology:
    """Return what a compose file describes, with `variables` in the place of ${…}."""
    text = yaml.safe_load(path.read_text(encoding="utf-8"))
    tree = _Reader(path, variables).interpolate({k: v for k, v in text.items() if not k.startswith("x-")})
    reader = _Reader(path, variables, tree)
    reader.only("", tree, {"name", "services", "networks", "volumes", "secrets"})
    services = {name: reader.service(name, tree["services"][name]) for name in tree["services"]}
    for name, service in services.items():
        for other in service.needs.keys() - services.keys():
            raise reader.problem(f"services.{name}.depends_on", f"there is no service {other}")
    try:
        order = list(TopologicalSorter({name: s.needs for name, s in services.items()}).static_order())
    except CycleError as cycle:
        raise reader.problem("services", f"services wait for each other: {cycle.args[1]}") from None
    networks = {name: bool((one or {}).get("internal")) for name, one in tree.get("networks", {}).items()}
    return Topology({name: services[name] for name in order}, networks, list(tree.get("volumes", {})))


class _Reader:
    def __init__(self, path: Path, variables: Mapping[str, str], tree: dict | None = None) -> None:
        self._path, self._variables, self._tree = path, variables, tree or {}

    def problem(self, where: str, what: str) -> UsageError:
        return UsageError(
            what, where=f"{self._path}: {where}", remedy="correct it, or extend compose_file.py"
        )

    def only(self, where: str, table: dict, known: set[str]) -> None:
        for key in table.keys() - known:
            raise self.problem(f"{where}.{key}".lstrip("."), "this key is not understood")

    def interpolate(self, value: Any) -> Any:
        """Replace ${NAME} and ${NAME:-default}, and $$ by $, in all values."""
        if isinstance(value, dict):
            return {key: self.interpolate(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.interpolate(one) for one in value]
        if not isinstance(value, str):
            return value

        def replace(match: re.Match[str]) -> str:
            dollar, name, default = match.groups()
            if dollar:
                return "$"
            found = self._variables.get(name or "") or default
            if found is None:
                raise self.problem(value, "a variable has neither a value nor a default")
            return found

        return VARIABLE.sub(replace, value)

    def service(self, name: str, table: dict[str, Any]) -> Service:
        where = f"services.{name}"
        self.only(where, table, ELSEWHERE | OPTIONS.keys())
        options = [option for key, make in OPTIONS.items() if key in table for option in make(table[key])]
        self.only(f"{where}.deploy", table.get("deploy", {}), {"replicas"})
        needs = {other: one["condition"] for other, one in table.get("depends_on", {}).items()}
        for condition in set(needs.values()) - set(CONDITIONS):
            raise self.problem(f"{where}.depends_on", f"there is no condition {condition}")
        missing = {"user", "mem_limit", "pids_limit", "cpus"} - table.keys()
        if missing:
            raise self.problem(where, f"a service needs {' and '.join(sorted(missing))}")
        return Service(
            name=name,
            image=table["image"],
            is_built="build" in table,
            command=[str(word) for word in table.get("command", [])],
            options=options,
            mounts=[*self._volumes(where, table), *self._secrets(where, table)],
            networks=list(table.get("networks", [])),
            needs=needs,
            health=self._health(f"{where}.healthcheck", table.get("healthcheck")),
            replicas=int(table.get("deploy", {}).get("replicas", 1)),
            limits=Limits(
                memory_bytes=bytes_of(table["mem_limit"]),
                processes=int(table["pids_limit"]),
                cpus=float(table["cpus"]),
                user=int(str(table["user"]).partition(":")[0]),
                read_only=bool(table.get("read_only", False)),
            ),
        )

    def _volumes(self, where: str, table: dict) -> list[Mount]:
        mounts = []
        for text in table.get("volumes", []):
            source, target, *mode = text.split(":")
            is_volume = not source.startswith((".", "/"))
            if is_volume and source not in self._tree.get("volumes", {}):
                raise self.problem(f"{where}.volumes", f"there is no volume {source}")
            if mode not in ([], ["ro"], ["rw"]):
                raise self.problem(f"{where}.volumes", f"{text} has a mode that is not understood")
            mounts.append(
                Mount(source if is_volume else self._place(source), target, is_volume, mode == ["ro"])
            )
        return mounts

    def _secrets(self, where: str, table: dict) -> list[Mount]:
        mounts = []
        for name in table.get("secrets", []):
            if name not in self._tree.get("secrets", {}):
                raise self.problem(f"{where}.secrets", f"there is no secret {name}")
            file = self._place(self._tree["secrets"][name]["file"])
            mounts.append(Mount(file, f"{SECRETS}/{name}", is_volume=False, read_only=True))
        return mounts

    def _place(self, text: str) -> str:
        return str((self._path.parent / text).resolve())

    def _health(self, where: str, table: dict | None) -> Health | None:
        if table is None:
            return None
        self.only(where, table, {"test", "interval", "timeout", "retries", "start_period"})
        kind, *command = table["test"]
        if kind != "CMD":
            raise self.problem(where, "only tests of the form [CMD, program, …] are understood")
        interval, timeout = seconds_of(table["interval"]), seconds_of(table["timeout"])
        patience = seconds_of(table.get("start_period", "0s")) + table["retries"] * (interval + timeout)
        return Health(command, interval, timeout, patience)


def bytes_of(text: str | int) -> int:
    """Return a size such as 4g in bytes."""
    number, unit = re.fullmatch(r"(\d+)([bkmg]?)b?", str(text).lower()).groups()  # type: ignore[union-attr]
    return int(number) * SIZES[unit]


def seconds_of(text: str) -> float:
    """Return a duration such as 30s or 1m30s in seconds."""
    parts = re.findall(r"(\d+)(ms|[smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError("this is no duration", where=text, remedy="write it like 30s or 1m30s")
    return sum(int(number) * SECONDS[unit] for number, unit in parts)


def _flag(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option] if value else []


def _value(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [f"{option}={value}"]


def _values(option: str) -> Callable[[Any], list[str]]:
    return lambda values: [f"{option}={value}" for value in values]


OPTIONS: dict[str, Callable[[Any], list[str]]] = {
    "user": _value("--user"),
    "init": _flag("--init"),
    "restart": _value("--restart"),
    "read_only": _flag("--read-only"),
    "cap_drop": _values("--cap-drop"),
    "security_opt": _values("--security-opt"),
    "mem_limit": _value("--memory"),
    "pids_limit": _value("--pids-limit"),
    "cpus": _value("--cpus"),
    "tmpfs": _values("--tmpfs"),
    "ports": _values("--publish"),
    "environment": lambda table: [f"--env={key}={value}" for key, value in table.items()],
}
