"""Test the reader of compose.yaml: hand-worked options, refusals, and that the real file closes every container."""

from pathlib import Path

import pytest
import yaml

from docker.compose_file import Mount, bytes_of, read, seconds_of
from tasks.errors import UsageError

COMPOSE = Path(__file__).parents[2] / "docker" / "compose.yaml"

SMALL = """
x-shared: &shared {user: "10001:10001", mem_limit: 512m, pids_limit: 64, cpus: 0.5, networks: [inside]}
services:
  second:
    <<: *shared
    image: b:${VERSION:-latest}
    depends_on: {first: {condition: service_healthy}}
    deploy: {replicas: "${COPIES:-2}"}
    ports: ["127.0.0.1:${PORT:-8080}:80"]
    tmpfs: ["/tmp:mode=1777,size=1m"]
    read_only: true
    init: true
    cap_drop: [ALL]
  first:
    <<: *shared
    image: a
    build: {context: ..}
    command: [sh, -c, 'echo "$$HOME"']
    environment: {WORDS: two words, NUMBER: 4}
    volumes: ["data:/data", "./here:/there:ro"]
    secrets: [word]
    healthcheck: {test: [CMD, check, it], interval: 5s, timeout: 2s, retries: 3, start_period: 1m}
networks: {inside: {internal: true}}
volumes: {data: {}}
secrets: {word: {file: ./words/word}}
"""


def write(tmp_path, text=SMALL):
    path = tmp_path / "compose.yaml"
    path.write_text(text)
    return path


def test_options_by_hand(tmp_path):
    topology = read(write(tmp_path), {"PORT": "9"})
    assert list(topology.services) == ["first", "second"]  # the order in which they can start
    assert (topology.networks, topology.volumes) == ({"inside": True}, ["data"])
    first, second = topology.services.values()
    limits = ["--user=10001:10001", "--memory=512m", "--pids-limit=64", "--cpus=0.5"]
    assert sorted(first.options) == sorted([*limits, "--env=WORDS=two words", "--env=NUMBER=4"])
    assert sorted(second.options) == sorted(
        [
            *limits,
            "--init",
            "--read-only",
            "--cap-drop=ALL",
            "--tmpfs=/tmp:mode=1777,size=1m",
            "--publish=127.0.0.1:9:80",
        ]
    )
    assert first.command == ["sh", "-c", 'echo "$HOME"']
    assert (first.is_built, second.is_built) == (True, False)
    assert first.mounts == [
        Mount("data", "/data", is_volume=True, read_only=False),
        Mount(str(tmp_path / "here"), "/there", is_volume=False, read_only=True),
        Mount(str(tmp_path / "words" / "word"), "/run/secrets/word", is_volume=False, read_only=True),
    ]
    assert first.health is not None
    assert (first.health.command, first.health.patience) == (["check", "it"], 60 + 3 * (5 + 2))
    assert (second.image, second.replicas, second.needs) == ("b:latest", 2, {"first": "service_healthy"})
    assert (first.limits.memory_bytes, first.limits.processes, first.limits.cpus) == (512 * 2**20, 64, 0.5)
    assert (first.limits.user, first.limits.read_only, second.limits.read_only) == (10001, False, True)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("    init: true\n", "    privileged: true\n", "services.second.privileged"),
        ("interval: 5s", "interval: 5s, start_interval: 1s", "services.first.healthcheck.start_interval"),
        ("[CMD, check, it]", "[CMD-SHELL, check it]", "[CMD, program"),
        ('replicas: "${COPIES:-2}"', "mode: global", "services.second.deploy.mode"),
        ("pids_limit: 64, ", "", "needs pids_limit"),
        ("{first: {condition", "{third: {condition", "there is no service third"),
        ("service_healthy", "service_happy", "there is no condition service_happy"),
        ("data:/data", "date:/data", "there is no volume date"),
        ("/there:ro", "/there:rw,z", "a mode"),
        ("secrets: [word]", "secrets: [words]", "there is no secret words"),
        ("${VERSION:-latest}", "${VERSION}", "neither a value nor a default"),
        ("networks: {inside", "configs: {}\nnetworks: {inside", "configs: this key"),
        (
            "    secrets: [word]",
            "    depends_on: {second: {condition: service_started}}",
            "wait for each other",
        ),
    ],
)
def test_refuses_what_it_does_not_apply(tmp_path, old, new, named):
    assert old in SMALL
    with pytest.raises(UsageError) as refused:
        read(write(tmp_path, SMALL.replace(old, new)), {})
    text = str(refused.value)
    place, _, key = named.partition(": ")
    assert named in text or (place in text and key in text) or all(part in text for part in named.split(": "))


def test_sizes_and_times():
    assert [bytes_of(text) for text in ("1g", "64m", "3k", "7", 9)] == [2**30, 64 * 2**20, 3072, 7, 9]
    assert [seconds_of(text) for text in ("500ms", "5s", "1m30s", "2h")] == [0.5, 5, 90, 7200]
    with pytest.raises(UsageError):
        seconds_of("5")


@pytest.fixture(scope="module")
def topology():
    return read(COMPOSE, {})


def test_every_container_is_confined(topology):
    for service in topology.services.values():
        wanted = {
            "--user=10001:10001",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges:true",
        }
        assert wanted <= set(service.options), service.name
        assert 2**29 <= service.limits.memory_bytes <= 6 * 2**30
        assert 64 <= service.limits.processes <= 512
        assert service.limits.cpus > 0


def test_an_open_container_would_be_noticed(tmp_path):
    tree = yaml.safe_load(COMPOSE.read_text())
    tree["services"]["postgres"]["read_only"] = False
    path = write(tmp_path, yaml.safe_dump(tree))
    with pytest.raises(AssertionError, match="postgres"):
        test_every_container_is_confined(read(path, {}))


def test_every_service_that_runs_on_has_a_health_check(topology):
    assert [name for name, service in topology.services.items() if service.health is None] == ["migrate"]


def test_variables_replace_defaults():
    values = {"MURMUR_WORKERS": "5", "MURMUR_WORKER_MEMORY": "7g", "MURMUR_SECRETS": "/elsewhere"}
    worker = read(COMPOSE, values).services["dask-worker"]
    assert (worker.replicas, worker.limits.memory_bytes) == (5, 7 * 2**30)
    secrets = [mount.source for mount in worker.mounts if mount.target.startswith("/run/secrets/")]
    assert secrets == ["/elsewhere/dask_certificate", "/elsewhere/dask_key"]
