"""Test what runs inside and around the containers, without any: health checks, secrets, trimming, reading of limits."""

import contextlib
import http.server
import json
import os
import socket
import ssl
import threading

import pytest

from docker import health
from docker.compose_file import Topology
from docker.confinement import read_look
from docker.containers import (
    ContainerError,
    Engine,
    Project,
    find_engine,
    remove_abandoned,
    removed_afterwards,
)
from docker.run_topology import differing_files
from docker.secret_files import main, make_secrets
from docker.trim_packages import trim
from tasks.cli.keys import make_dask_files


@contextlib.contextmanager
def tls_server(directory):
    """Serve TLS as a Dask process does: certificates on both sides."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "dask_certificate"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(str(directory / "dask_certificate"), str(directory / "dask_key"))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    plain, _ = listening.accept()
                    with contextlib.suppress(OSError), plain:
                        context.wrap_socket(plain, server_side=True).close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_dask_process_is_healthy_only_with_our_certificate(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for directory in (ours, theirs):
        directory.mkdir()
        make_dask_files(directory)
    with tls_server(ours) as port:
        assert health.dask_answers(port, ours, "127.0.0.1")
        with pytest.raises(ssl.SSLError):
            health.dask_answers(port, theirs, "127.0.0.1")
    with pytest.raises(OSError):
        health.dask_answers(port, ours, "127.0.0.1")


def test_health_of_airflow_is_that_of_the_component(capsys):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = {"triggerer": {"status": "healthy"}, "dag_processor": {"status": "unhealthy"}}
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *arguments):
            """Keep quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        assert health.component_beats("triggerer", f"{url}/health")
        assert not health.component_beats("dag_processor", f"{url}/health")
        with pytest.raises(KeyError):
            health.component_beats("nobody", f"{url}/health")
        assert health.main(["page", f"{url}/health"]) == 0
        assert health.main(["page", f"{url}/nothing"]) == 1
        server.shutdown()
    assert "404" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        health.main(["imagined", "1"])


def test_secrets_are_made_once_for_their_owner(tmp_path, capsys):
    place = tmp_path / "secrets"
    assert main([str(place)]) == 0
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    assert "dask_key" in capsys.readouterr().out
    assert place.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}
    (place / "jwt_key").unlink()
    assert make_secrets(place) == ["jwt_key"]
    after = {file.name: file.read_bytes() for file in place.iterdir()}
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == {"jwt_key"}
    assert make_secrets(place) == []


def test_secrets_are_those_of_the_compose_file(tmp_path):
    from tests.docker.test_compose_file import COMPOSE, read

    make_secrets(tmp_path)
    topology = read(COMPOSE, {"MURMUR_SECRETS": str(tmp_path)})
    mounts = {mount.source for service in topology.services.values() for mount in service.mounts}
    assert {source for source in mounts if source.startswith(str(tmp_path))} == set(
        map(str, tmp_path.iterdir())
    )


def test_trimming_keeps_programs(tmp_path):
    for name in (
        "one/__init__.py",
        "one/tests/__init__.py",
        "one/tests/data.bin",
        "two/test/data.json",
        "one/a.h",
        "botocore/data/s3/service.json",
        "botocore/data/ec2/service.json",
        "botocore/data/endpoints.json",
        "babel/locale-data/en.dat",
        "babel/locale-data/tlh.dat",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    assert trim(tmp_path) == 25
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == {
        "one/__init__.py",
        "two/test/data.json",  # `two/test` is no package: it may be data
        "botocore/data/s3/service.json",
        "botocore/data/endpoints.json",
        "babel/locale-data/en.dat",
    }


def test_limits_are_read():
    assert read_look("Uid:\t10001\t10001\t10001\t10001\nmemory: 64\ncpu: 5 10 \n") == {
        "Uid": "10001\t10001\t10001\t10001",
        "memory": "64",
        "cpu": "5 10",
    }


def test_without_docker_and_podman_the_reason_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContainerError, match="neither Docker nor Podman"):
        find_engine(tmp_path / "storage")


# Stands in for the engine: keeps what exists in files, so that what is really called can be looked at.
FAKE = """#!/bin/sh
echo "$@" >> {place}/calls
case "$1 $2" in
"ps --all") cat {place}/containers 2>/dev/null || true ;;
"rm --force") rm -f {place}/containers ;;
"network create") exit 3 ;;
esac
"""


def test_a_project_is_removed_also_when_it_fails(tmp_path, monkeypatch):
    program = tmp_path / "fake"
    program.write_text(FAKE.format(place=tmp_path))
    program.chmod(0o700)
    (tmp_path / "containers").write_text("left-behind\n")
    project = Project(Engine(str(program)), Topology({}, {"backend": True}, []), "p")
    with pytest.raises(ContainerError, match="network failed"), removed_afterwards(project):
        list(project.start())
    calls = (tmp_path / "calls").read_text()
    assert "network create --label=murmuration.project=p --internal p_backend" in calls
    assert "rm --force --volumes left-behind" in calls
    assert calls.count("--filter=label=murmuration.project=p") >= 6


def test_what_a_killed_run_left_is_removed(tmp_path):
    program = tmp_path / "fake"
    program.write_text(FAKE.format(place=tmp_path))
    program.chmod(0o700)
    gone = 2**22 + 1  # no process has such a number
    (tmp_path / "containers").write_text(
        f"murmuration-{gone}-postgres-1\nmurmuration-{os.getpid()}-postgres-1\n"
    )
    assert remove_abandoned(Engine(str(program))) == [f"murmuration-{gone}"]
    assert f"label=murmuration.project=murmuration-{os.getpid()}" not in (tmp_path / "calls").read_text()


def test_what_cannot_be_removed_is_reported(tmp_path):
    program = tmp_path / "fake"
    program.write_text(FAKE.format(place=tmp_path).replace("rm -f", "true"))
    program.chmod(0o700)
    (tmp_path / "containers").write_text("stuck\n")
    with pytest.raises(ContainerError, match="not removed: stuck"):
        Project(Engine(str(program)), Topology({}, {}, []), "p").remove()


def test_differing_files_are_found(tmp_path):
    for side, version, text in (("one", "a", "same"), ("two", "b", "same")):
        place = tmp_path / side
        place.mkdir()
        (place / "items").write_text(text)
        (place / "manifest.json").write_text(
            json.dumps({"code_version": version, "created_at": side, "k": 5})
        )
    one, two = tmp_path / "one", tmp_path / "two"
    assert list(differing_files(one, two)) == []
    (two / "items").write_text("other")
    (two / "manifest.json").write_text(json.dumps({"k": 6}))
    (two / "more").write_text("")
    assert list(differing_files(one, two)) == [
        f"{n}: other bytes" for n in ("items", "manifest.json", "more")
    ]
