"""Test a backfill by a cluster that shares nothing but an object store and the ledger's PostgreSQL."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.same_release import find_differences, find_releases
from tasks.cli import main
from tasks.storage.bucket import Bucket
from tasks.store import read_json
from tests.tasks.storage.cluster import base_environment, dask_cluster

pytestmark = [pytest.mark.stack, pytest.mark.slow]

BACKFILL = """
import sys
from tasks.cli import main

for day in sys.argv[2:]:
    if code := main(["run", sys.argv[1], "--snapshot", day, "--json"]):
        sys.exit(code)
"""
SNAPSHOTS = ("2026-01-01", "2026-02-01")
CONFIG = """
[release]
name = "small"
schedule = "0 3 1 * *"
start_date = 2026-01-01

[source]
format = "synthetic"

[source.synthetic]
users = 100
items = 50
churn = 0.7  # so that newcomers are released in the second snapshot

[privacy]
method = "predictive-padded"
k = 4
"""


def backfill(environment: dict[str, str], config: Path) -> list[dict]:
    """Run the snapshots one after the other in a process of its own; return its answers."""
    words = [sys.executable, "-c", BACKFILL, str(config), *SNAPSHOTS]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def answer_of(capsys):
    """Run a command in this process, which is another one than made the release: (words) → its answer."""

    def run(*words: str) -> dict:
        capsys.readouterr()
        code = main([*words, "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)

    return run


def test_a_backfill_beyond_one_machine(
    s3, s3_variables, postgres, use_postgres, tmp_path, monkeypatch, answer_of
):
    """Driver and two workers have private directories; both releases have the bytes of those made on one machine."""
    config, secret = tmp_path / "small.toml", tmp_path / "secret"
    config.write_text(CONFIG)
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    with monkeypatch.context() as one_machine:
        one_machine.setenv("MURMUR_WORKERS", "0")
        for day in SNAPSHOTS:
            made = answer_of("run", str(config), "--snapshot", day, "--store", str(tmp_path / "here"))
            assert made["status"] == "published"

    use_postgres()
    address = s3()
    there = {
        **s3_variables,
        "MURMUR_STORE": address,
        "MURMUR_LEDGER": postgres.replace("+psycopg2", ""),
        "MURMUR_CACHE": str(tmp_path / "driver"),
    }
    # Workers have neither the secret nor the ledger's address.
    with dask_cluster(tmp_path / "cluster", {**base_environment(), **s3_variables}) as dask:
        answers = backfill({**base_environment(), "MURMUR_SECRET_FILE": str(secret), **there, **dask}, config)
        places = [tmp_path / "driver", *(tmp_path / "cluster").glob("worker-*/cache")]
        assert len(places) == 3  # both workers had blocks
        left = [file for place in places for file in place.rglob("*") if file.is_file()]
        assert left == []  # nobody's ratings stay on a machine after the run
    assert [one["status"] for one in answers] == ["published", "published"]
    assert [one["published"] for one in answers] == [f"{address}/published/small/{day}" for day in SNAPSHOTS]
    names = Bucket(address).entries()
    assert not [name for name in names if name.startswith("private/exchange/")]
    for name in names:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        Bucket(address).get(name, tmp_path / "copy" / name)
    here, copied = find_releases(tmp_path / "here"), find_releases(tmp_path / "copy")
    assert here.keys() == copied.keys() == {f"small/{day}" for day in SNAPSHOTS}
    for release, place in here.items():
        assert list(find_differences(place, copied[release])) == []
    first, second = (read_json(here[f"small/{day}"] / "manifest.json")["counts"] for day in SNAPSHOTS)
    assert second["users"] > first["users"]  # people were carried over, and others entered

    for name, value in there.items():
        monkeypatch.setenv(name, value)
    assert answer_of("verify", answers[1]["published"])["status"] == "passed"
    assert answer_of("ledger", str(config), "--check")["status"] == "intact"
    [calendar] = answer_of("calendar", str(config))["calendars"]
    assert calendar["counts"]["published"] == 2
    assert answer_of("run", str(config), "--snapshot", SNAPSHOTS[0])["already_published"]
    withdrawn = answer_of("withdraw", str(config), "--snapshot", SNAPSHOTS[1], "--reason", "a test")
    assert withdrawn["status"] == "withdrawn"
    public = {
        name for name in Bucket(address).entries() if name.startswith(f"published/small/{SNAPSHOTS[1]}/")
    }
    assert public == {f"published/small/{SNAPSHOTS[1]}/tombstone.json"}
