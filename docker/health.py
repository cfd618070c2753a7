"""Test the health of the service in this container: `python health.py dask PORT | page URL | airflow COMPONENT`.

The health checks of compose.yaml run it every few seconds, so it imports the standard library alone.
"""

import json
import socket
import ssl
import sys
import urllib.request
from pathlib import Path

SECONDS = 5.0
SECRETS = Path("/run/secrets")
API = "http://api-server:8080/api/v2/monitor/health"


def dask_answers(port: int, secrets: Path = SECRETS, host: str = "") -> bool:
    """Test whether a Dask process on this port of this container proves that it has our certificate.

    Workers and nannies listen on the container's own address, not on loopback.
    """
    certificate, key = str(secrets / "dask_certificate"), str(secrets / "dask_key")
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False  # the certificate names nobody: only its owner has the key
    context.load_cert_chain(certificate, key)
    with (
        socket.create_connection((host or socket.gethostname(), port), SECONDS) as plain,
        context.wrap_socket(plain),
    ):
        return True


def page_answers(url: str) -> bool:
    """Test whether a page of this container can be read."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - compose.yaml names it
        return bool(answer.status == 200)


def component_beats(component: str, url: str = API) -> bool:
    """Test whether a component of Airflow has written its heartbeat, as the API server reports it."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - a constant
        return bool(json.load(answer)[component]["status"] == "healthy")


def main(arguments: list[str]) -> int:
    """Return 0 where the service is healthy."""
    kind, subject = arguments
    try:
        if kind == "dask":
            return 0 if dask_answers(int(subject)) else 1
        if kind == "page":
            return 0 if page_answers(subject) else 1
        if kind == "airflow":
            return 0 if component_beats(subject) else 1
    except (OSError, KeyError, ValueError) as problem:  # ssl.SSLError and urllib's errors are OSErrors
        sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
        return 1
    raise SystemExit(f"there is no such kind of check: {kind}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
