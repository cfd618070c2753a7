"""Test a whole release by a cluster that shares nothing but an object store and the ledger's PostgreSQL."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.same_release import find_differences, find_releases
from tasks.cli import main
from tasks.storage.bucket import Bucket
from tests.tasks.storage.cluster import base_environment, dask_cluster

pytestmark = [pytest.mark.stack, pytest.mark.slow]

MURMUR = shutil.which("murmur", path=str(Path(sys.executable).parent))
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

[privacy]
method = "predictive-padded"
k = 4
"""


def murmur(environment: dict[str, str], *words: str) -> dict:
    """Run a command in a process of its own; return its answer."""
    done = subprocess.run(
        [MURMUR, *words, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def test_a_release_beyond_one_machine(
    s3, s3_variables, postgres, use_postgres, tmp_path, monkeypatch, answer_of
):
    """Driver and two workers have private directories; the release has the bytes of one made on one machine."""
    use_postgres()
    address = s3()
    config, secret = tmp_path / "small.toml", tmp_path / "secret"
    config.write_text(CONFIG)
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o600)
    own = {**base_environment(), "MURMUR_SECRET_FILE": str(secret)}
    there = {
        **own,
        **s3_variables,
        "MURMUR_STORE": address,
        "MURMUR_LEDGER": postgres.replace("+psycopg2", ""),
        "MURMUR_CACHE": str(tmp_path / "driver"),
    }
    # Workers have neither the secret nor the ledger's address.
    with dask_cluster(tmp_path / "cluster", {**base_environment(), **s3_variables}) as dask:
        answer = murmur({**there, **dask}, "run", str(config), "--snapshot", "2026-01-01")
        places = [tmp_path / "driver", *(tmp_path / "cluster").glob("worker-*/cache")]
        assert len(places) == 3  # both workers had blocks
        left = [file for place in places for file in place.rglob("*") if file.is_file()]
        assert left == []  # nobody's ratings stay on a machine after the run
    assert answer["status"] == "published"
    assert answer["published"] == f"{address}/published/small/2026-01-01"
    names = Bucket(address).entries()
    assert not [name for name in names if name.startswith("private/exchange/")]
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    assert answer_of("verify", answer["published"])["status"] == "passed"
    assert answer_of("ledger", str(config), "--check")["status"] == "intact"
    [calendar] = answer_of("calendar", str(config))["calendars"]
    assert calendar["counts"]["published"] == 1
    assert answer_of("run", str(config), "--snapshot", "2026-01-01")["already_published"]

    one_machine = {**own, "MURMUR_WORKERS": "0", "MURMUR_STORE": str(tmp_path / "here")}
    murmur(one_machine, "run", str(config), "--snapshot", "2026-01-01")
    for name in names:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        Bucket(address).get(name, tmp_path / "copy" / name)
    here, copied = find_releases(tmp_path / "here"), find_releases(tmp_path / "copy")
    assert here.keys() == copied.keys() == {"small/2026-01-01"}
    assert list(find_differences(here["small/2026-01-01"], copied["small/2026-01-01"])) == []
    withdrawn = answer_of("withdraw", str(config), "--snapshot", "2026-01-01", "--reason", "a test")
    assert withdrawn["status"] == "withdrawn"
    public = {name for name in Bucket(address).entries() if name.startswith("published/")}
    assert public == {"published/small/2026-01-01/tombstone.json"}
