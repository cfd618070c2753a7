"""Make a release through Airflow with a store in an object store: `python -m tests.integration.airflow_on_s3`.

The embedded stack runs with `MURMUR_STORE=s3://…` on the server of moto and `MURMUR_LEDGER=postgresql://…` on a server
of its own. Its components have private copies and share no directory of a store. The published files must be those of
`murmur run` on this machine. It is no test: one more start of the stack would take a minute of every run of the tests.
"""

import contextlib
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import s3fs

from benchmarks.same_release import find_differences
from tasks.stack import Stack
from tasks.stack.postgres import Postgres
from tasks.stack.processes import stop, wait_until
from tasks.storage.bucket import Bucket
from tests.tasks.storage.cluster import s3_server

NAME, DAY = "there", datetime.date(2026, 2, 1)
DAGS = Path(__file__).parents[2] / "dags"
RELEASE = f"""
[release]
name = "{NAME}"
start_date = 2026-01-01
[source]
format = "synthetic"
[source.synthetic]
users = 300
items = 80
ratings_per_user = 25.0
"""


@contextlib.contextmanager
def ledger(place: Path) -> Iterator[str]:
    """Start a PostgreSQL for the ledger; yield its address."""
    place.mkdir()
    server = Postgres(place, place / "postgres.log")
    component = server.prepare()
    try:
        component.start()
        wait_until(server.ready, "PostgreSQL", [component], timeout=60)
        yield server.url("psycopg2").replace("+psycopg2", "")
    finally:
        stop([component])
        server.remove()


def main() -> int:
    """Return 0 where the release has the bytes of one made without Airflow, in a directory."""
    with tempfile.TemporaryDirectory(prefix="murmur-s3-") as made, contextlib.ExitStack() as last_first:
        place = Path(made)
        secret, config = place / "secret.key", place / f"{NAME}.toml"
        secret.write_bytes(b"s" * 32)
        secret.chmod(0o600)
        config.write_text(RELEASE)
        os.environ["MURMUR_SECRET_FILE"] = str(secret)
        command = [str(Path(sys.executable).with_name("murmur")), "run", str(config), "--snapshot", str(DAY)]
        here = {name: value for name, value in os.environ.items() if not name.startswith("MURMUR_L")}
        subprocess.run(
            [*command, "--store", str(place / "here"), "--json"],
            env=here,
            check=True,
            stdout=subprocess.DEVNULL,
        )

        variables = last_first.enter_context(s3_server())
        own = {
            "MURMUR_LEDGER": last_first.enter_context(ledger(place / "ledger")),
            "MURMUR_CACHE": str(place / "caches"),
        }
        os.environ.update(variables | own)
        s3fs.S3FileSystem(skip_instance_cache=True).mkdir("bucket")
        address = "s3://bucket/some/prefix"
        dags = place / "dags"
        shutil.copytree(DAGS, dags, ignore=shutil.ignore_patterns("*.toml", "__pycache__"))
        (dags / "releases").mkdir(exist_ok=True)
        shutil.copyfile(config, dags / "releases" / config.name)
        stack = Stack(place / "state", store=address, dags=dags, workers=2)
        last_first.callback(stack.clean)
        last_first.enter_context(stack)
        stack.wait_for_dag(f"release_{NAME}")
        began = time.monotonic()
        run_id = stack.client.trigger(
            f"release_{NAME}", datetime.datetime.combine(DAY, datetime.time(3), datetime.UTC)
        )
        state = stack.client.wait(f"release_{NAME}", run_id, 1800)
        sys.stdout.write(f"Airflow: {state} after {time.monotonic() - began:.0f} s\n")
        bucket, there = Bucket(address), place / "there"
        names = bucket.entries()
        for name in names:
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            bucket.get(name, there / name)
        release = Path("published", NAME, str(DAY))
        differences = list(find_differences(place / "here" / release, there / release))
        exchanged = [name for name in names if name.startswith("private/exchange/")]
        public = [name for name in names if name.startswith("published/")]
        sys.stdout.write(
            f"{len(names)} objects, {len(public)} of them public, {len(exchanged)} left by the exchange\n"
        )
        sys.stdout.write("\n".join(differences) or "the same files as `murmur run` in a directory\n")
        return 0 if state == "success" and public and not differences and not exchanged else 1


if __name__ == "__main__":
    sys.exit(main())
