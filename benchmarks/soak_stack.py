"""Make the releases of the soak in the embedded stack, one run of the DAG after the other, and measure what grows.

Memory is what processes have for themselves plus their part of what they share (PSS), so that a sum counts nothing
twice. The figures are taken when no task runs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import sqlalchemy as sa

from benchmarks.soak_figures import FIRST, MEBIBYTE, NAME, count_below, figures_of, release_tables, rows_of

if TYPE_CHECKING:
    from tasks.stack import Stack

DAG = f"release_{NAME}"
DAGS = Path(__file__).parents[1] / "dags"
LONGEST_SECONDS = 900.0
AT = datetime.time(3, tzinfo=datetime.UTC)
PARTS = {
    "airflow": {"api-server", "scheduler", "dag-processor", "triggerer"},
    "dask": {"dask-scheduler", "dask-worker"},
    "postgres": {"postgres"},
}


def release_file(asked: argparse.Namespace) -> str:
    """Return the release file; it has no schedule, so every run is one that was triggered."""
    tables = release_tables(asked.users, asked.items, asked.churn)
    people = "".join(f"{key} = {value}\n" for key, value in tables["source"]["synthetic"].items())
    start = f"start_date = {FIRST}"
    return f"""[release]
name = "{NAME}"
{start}
[source]
format = "synthetic"
[source.synthetic]
{people}"""


def run(asked: argparse.Namespace, scratch: Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Start the stack, make the releases and return the figures after each."""
    from tasks.data.retention import sweep
    from tasks.stack import Stack

    dags, temporary = scratch / "dags", scratch / "temporary"
    shutil.copytree(DAGS, dags, ignore=shutil.ignore_patterns("*.toml", "__pycache__"))
    (dags / "releases").mkdir(exist_ok=True)
    (dags / "releases" / f"{NAME}.toml").write_text(release_file(asked))
    temporary.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    found: list[dict[str, Any]] = []
    with Stack(scratch / "state", store=scratch / "store", dags=dags, workers=2) as stack:
        try:
            stack.wait_for_dag(DAG)
            for number in range(1, asked.stack + 1):
                day = FIRST + datetime.timedelta(days=asked.days * (number - 1))
                began = time.monotonic()
                run_id = stack.client.trigger(DAG, datetime.datetime.combine(day, AT))
                state = stack.client.wait(DAG, run_id, LONGEST_SECONDS)
                wall = time.monotonic() - began
                cpu = steps_of(stack.store.private(NAME, day) / "work")
                sweep(stack.store, NAME, 0)
                found.append(
                    {
                        "release": number,
                        "snapshot": day.isoformat(),
                        "status": "published" if state == "success" else state,
                        "cpu_seconds": round(cpu, 3),
                        "wall_seconds": round(wall, 3),
                        "temporary_files": count_below(temporary)[0],
                        **figures_of(stack.store.root),
                        **figures_of_stack(stack),
                    }
                )
                memory = sum(found[-1][f"{part}_bytes"] for part in PARTS)
                say(
                    f"{number:>4} {state}  {wall:.0f} s  {cpu:.1f} CPU-s  {memory / MEBIBYTE:,.0f} MiB  "
                    f"database {found[-1]['database_bytes'] / MEBIBYTE:.1f} MiB"
                )
        finally:
            stack.stop()
            stack.clean()
    return found


def steps_of(work: Path) -> float:
    """Return the CPU seconds of all steps of a release, by what each has left."""
    from tasks.store import STEP_TIMES, read_json

    return float(sum(read_json(file)["cpu_seconds"] for file in work.glob(f"*/{STEP_TIMES}")))


def figures_of_stack(stack: Stack) -> dict[str, int]:
    """Return the figures of the processes, of the logs and of Airflow's database."""
    trees: dict[str, list[psutil.Process]] = {part: [] for part in PARTS}
    for component in stack._components:
        (part,) = (part for part, names in PARTS.items() if component.name in names)
        trees[part] += component.process_tree()
    logs, others = count_below(stack.state / "airflow" / "logs"), count_below(stack.logs)
    address = stack._postgres.url("psycopg2")
    return {
        **{f"{part}_bytes": sum(map(memory_of, tree)) for part, tree in trees.items()},
        **{f"{part}_open_files": sum(map(open_files, tree)) for part, tree in trees.items()},
        "processes": sum(map(len, trees.values())),
        "database_bytes": size_of(address),
        "database_rows": rows_of(address),
        "log_files": logs[0] + others[0],
        "log_bytes": logs[1] + others[1],
    }


def memory_of(process: psutil.Process) -> int:
    """Return the memory of a process; one that ends meanwhile has none."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def open_files(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return process.num_fds()
    return 0


def size_of(address: str) -> int:
    """Return the bytes of a database of PostgreSQL."""
    engine = sa.create_engine(address)
    try:
        with engine.connect() as db:
            return int(db.scalar(sa.text("SELECT pg_database_size(current_database())")) or 0)
    finally:
        engine.dispose()
