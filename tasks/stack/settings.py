"""Define the environment of the components: all listen on loopback, none sends usage data."""

import base64
import os
import secrets
from pathlib import Path

from tasks.engine import NO_PAGES, ONE_THREAD, PATIENCE, QUIET
from tasks.stack.postgres import Postgres
from tasks.store import owner_only, read_json, write_json

LOOPBACK = "127.0.0.1"
REPOSITORY = Path(__file__).parents[2]
UI_PORT = 8080
UI_USER = "admin"
RELEASES_PAGE = "/plugin/releases"  # dags/plugins/murmuration.py

# Modules that every task needs; Airflow's workers are forked from a process that has imported them.
PRELOAD = (
    "airflow.executors.local_executor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.dag_processing.dagbag",
    "airflow.providers.standard.operators.hitl",
    "distributed",
    "great_expectations",
    "tasks.stack.preload",
)


def environment(
    state: Path,
    store: str,
    dags: Path,
    postgres: Postgres,
    ports: tuple[int, int],
    idle_seconds: float,
) -> dict[str, str]:
    """Return the environment of every component: the user's, with our settings on top.

    It contains NUMBA_CACHE_DIR (tasks/__init__.py), so that all components share compiled kernels. `ports` are those
    of Airflow and of Dask's scheduler, `idle_seconds` how long Airflow's scheduler sleeps when it had nothing to do.
    """
    airflow_port, dask_port = ports
    own = {
        **ONE_THREAD,
        **_airflow(state, dags, postgres, airflow_port, idle_seconds),
        **_dask(),
        "MURMUR_STORE": store,
        "MURMUR_DASK": f"tls://{LOOPBACK}:{dask_port}",
        "MURMUR_DASK_CA": str(certificate_file(state)),
        "MURMUR_DASK_CERT": str(certificate_file(state)),
        "MURMUR_DASK_KEY": str(key_file(state)),
        "GX_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": f"{LOOPBACK},localhost",
        "no_proxy": f"{LOOPBACK},localhost",
    }
    if secret := os.environ.get("MURMUR_SECRET_FILE"):
        own["MURMUR_SECRET_FILE"] = str(Path(secret).absolute())  # components run in another directory
    return {**os.environ, **own}


def _airflow(state: Path, dags: Path, postgres: Postgres, port: int, idle_seconds: float) -> dict[str, str]:
    sections = {
        "core": {
            "dags_folder": str(dags),
            "plugins_folder": str(dags / "plugins"),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": "4",
            "simple_auth_manager_users": f"{UI_USER}:admin",
            "simple_auth_manager_passwords_file": str(password_file(state)),
            "execution_api_server_url": f"http://{LOOPBACK}:{port}/execution/",
            "min_serialized_dag_update_interval": "2",
            "mp_start_method": "forkserver",
            "mp_forkserver_preload": ",".join(PRELOAD),
        },
        "database": {
            "sql_alchemy_conn": postgres.url("psycopg2"),
            "sql_alchemy_conn_async": postgres.url("asyncpg"),
        },
        "api": {"host": LOOPBACK, "port": str(port), "base_url": f"http://{LOOPBACK}:{port}", "workers": "1"},
        "scheduler": {
            "scheduler_heartbeat_sec": "1",
            "job_heartbeat_sec": "2",
            "scheduler_idle_sleep_time": str(idle_seconds),
        },
        "dag_processor": {
            "refresh_interval": "10",
            "min_file_process_interval": "30",  # each parse of the DAG files costs a second of CPU time
            "parsing_processes": "1",
        },
        "logging": {"base_log_folder": str(state / "airflow" / "logs")},
    }
    keys = _keys(state / "airflow" / "keys.json")
    return {
        "AIRFLOW_HOME": str(state / "airflow"),
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet"],
        "AIRFLOW__API__SECRET_KEY": keys["session"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt"],
        **{
            f"AIRFLOW__{s.upper()}__{k.upper()}": v
            for s, options in sections.items()
            for k, v in options.items()
        },
    }


def _dask() -> dict[str, str]:
    """Return the settings of tasks/engine.py; no spilling and no pausing (blocks bound the memory), no pages."""
    memory = {
        f"DASK_DISTRIBUTED__WORKER__MEMORY__{k}": "False" for k in ("SPILL", "TARGET", "PAUSE", "TERMINATE")
    }
    pages = {f"DASK_{routes.replace('.', '__').upper()}": "[]" for routes in NO_PAGES}
    quiet = {
        f"DASK_{key.replace('.', '__').replace('-', '_').upper()}": str(value)
        for key, value in (QUIET | PATIENCE).items()
    }
    return {**memory, **pages, **quiet, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s"}


def certificate_file(state: Path) -> Path:
    """Return the place of the certificate of Dask's processes, made anew at each start."""
    return state / "certificates" / "dask.crt"


def key_file(state: Path) -> Path:
    """Return the place of the key of that certificate."""
    return state / "certificates" / "dask.key"


def password_file(state: Path) -> Path:
    """Return the place of the passwords of Airflow's accounts, in the form Airflow reads."""
    return state / "airflow" / "passwords.json"


def ui_password(state: Path) -> str:
    """Return the password of `UI_USER`, made once per state directory."""
    path = password_file(state)
    if not path.exists():
        with owner_only():
            write_json(path, {UI_USER: secrets.token_urlsafe(18)})
    return read_json(path)[UI_USER]


def _keys(path: Path) -> dict[str, str]:
    """Return Airflow's keys, created once per state directory: all components need the same."""
    if not path.exists():
        keys = {"session": secrets.token_hex(32), "jwt": secrets.token_hex(32)}
        keys["fernet"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        with owner_only():
            write_json(path, keys)
    return read_json(path)
