"""Start what a release beyond one machine needs: an S3 server, and a Dask cluster that shares nothing with us."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.engine import make_certificate

REGION = {"AWS_ACCESS_KEY_ID": "owner", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
DASK = [sys.executable, "-m", "distributed.cli"]
START_SECONDS = 60


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Serve S3 on loopback; yield the variables that lead to it."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {"AWS_ENDPOINT_URL": f"http://{host}:{port}", **REGION}
    finally:
        server.stop()


@contextlib.contextmanager
def dask_cluster(place: Path, environment: dict[str, str], workers: int = 2) -> Iterator[dict[str, str]]:
    """Start a scheduler and workers, each in a directory of its own; yield the variables that lead to them."""
    place.mkdir(mode=0o700)
    certificate, key = make_certificate()
    files = {"ca": place / "dask.crt", "cert": place / "dask.crt", "key": place / "dask.key"}
    for file, text in ((files["cert"], certificate), (files["key"], key)):
        file.write_text(text)
        file.chmod(0o600)
    address = f"tls://127.0.0.1:{_free_port()}"
    tls = [f"--tls-ca-file={files['ca']}", f"--tls-cert={files['cert']}", f"--tls-key={files['key']}"]
    started = []

    def start(name: str, *words: str) -> None:
        own = place / name
        own.mkdir(mode=0o700)
        variables = {**environment, "MURMUR_CACHE": str(own / "cache"), "TMPDIR": str(own)}
        with (place / f"{name}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", *words, *tls], cwd=own, env=variables, stdout=log, stderr=log
                )
            )

    try:
        port = address.rpartition(":")[2]
        start(
            "scheduler",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--no-dashboard",
        )
        for number in range(workers):
            one = f"worker-{number}"
            start(one, "distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
                  "--no-dashboard", "--local-directory", str(place / one))  # fmt: skip
        names = {"MURMUR_DASK_CA": "ca", "MURMUR_DASK_CERT": "cert", "MURMUR_DASK_KEY": "key"}
        yield {"MURMUR_DASK": address, **{name: str(files[file]) for name, file in names.items()}}
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def base_environment() -> dict[str, str]:
    """Return our environment without what names a store, a ledger or a cluster."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MURMUR_", "AWS_", "COVERAGE_"))
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
