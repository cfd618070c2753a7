"""Test the environment of the components and the schedule of the demo, without starting anything."""

import datetime
import json
import os
from pathlib import Path

import dask
import pytest

from tasks.engine import QUIET
from tasks.stack import Stack
from tasks.stack.settings import ui_password
from tasks.stack.supervisor import latest_scheduled_times


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Return the environment of a stack whose database is only named."""
    monkeypatch.setenv("MURMUR_SECRET_FILE", "secret.key")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    monkeypatch.chdir(tmp_path)
    state = tmp_path / ".stack"
    (state / "airflow").mkdir(parents=True)
    (state / "postgres").symlink_to(tmp_path)
    return Stack(state, store=tmp_path / "store", workers=1).environment


def test_components_share_compiled_kernels(environment):
    assert environment["NUMBA_CACHE_DIR"] == os.environ["NUMBA_CACHE_DIR"]


def test_components_use_one_thread_and_no_proxy(environment):
    assert environment["OMP_NUM_THREADS"] == environment["NUMBA_NUM_THREADS"] == "1"
    assert "127.0.0.1" in environment["NO_PROXY"]


def test_the_secret_file_is_found_from_another_directory(environment, tmp_path):
    assert environment["MURMUR_SECRET_FILE"] == str(tmp_path / "secret.key")


def test_dask_is_reached_with_a_certificate_and_shows_no_pages(environment, tmp_path):
    assert environment["MURMUR_DASK"].startswith("tls://127.0.0.1:")
    assert environment["MURMUR_DASK_KEY"] == str(tmp_path / ".stack" / "certificates" / "dask.key")
    for part in ("SCHEDULER", "WORKER"):
        assert environment[f"DASK_DISTRIBUTED__{part}__HTTP__ROUTES"] == "[]"


def test_dask_does_not_watch_itself(environment):
    """The variables are those that Dask reads."""
    read = dask.config.collect_env(environment)
    assert {key: dask.config.get(key, config=read) for key in QUIET} == QUIET


def test_airflow_asks_for_a_password(environment, tmp_path):
    assert not any("ALL_ADMINS" in name for name in environment)
    assert environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == "admin:admin"
    password = ui_password(tmp_path / ".stack")
    assert len(password) >= 20
    assert ui_password(tmp_path / ".stack") == password
    file = Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text()) == {"admin": password}


@pytest.mark.parametrize(
    ("now", "scheduled"),
    [
        ("2026-03-01T03:00", ["2026-01-01", "2026-02-01", "2026-03-01"]),
        ("2026-03-01T02:59", ["2025-12-01", "2026-01-01", "2026-02-01"]),
        ("2026-01-01T00:30", ["2025-10-01", "2025-11-01", "2025-12-01"]),
        ("2026-03-31T12:00", ["2026-01-01", "2026-02-01", "2026-03-01"]),
    ],
)
def test_the_demo_runs_for_the_latest_firsts_of_a_month(now, scheduled):
    moment = datetime.datetime.fromisoformat(now).replace(tzinfo=datetime.UTC)
    times = latest_scheduled_times(moment, 3)
    assert [one.isoformat() for one in times] == [f"{day}T03:00:00+00:00" for day in scheduled]
