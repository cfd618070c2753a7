"""Publish the demo: three monthly snapshots by a backfill, and a table of the series that they make.

Where all of them are published nothing has to run: that source, settings, ledger and published files are those of the
publication is found without the stack, in seconds.
"""

import datetime
import time
from pathlib import Path
from typing import Any, NoReturn

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tasks.config import ReleaseConfig, load
from tasks.errors import MurmurError
from tasks.series.ledger import Ledger
from tasks.series.overview import describe
from tasks.series.repeated import is_already_published
from tasks.series.under_way import under_way
from tasks.stack.processes import StackError
from tasks.stack.settings import RELEASES_PAGE, REPOSITORY, UI_PORT
from tasks.stack.supervisor import BUSY_IDLE_SECONDS, Stack, latest_scheduled_times
from tasks.store import Store, read_json

DEMO = "demo"
CONFIG = "dags/releases/demo.toml"
RELEASES = 3
SECONDS = 900.0  # for each release
LOG_LINES = 30


def publish(console: Console) -> None:
    """Publish the demo release for the latest dates of its schedule, oldest first."""
    days = [moment.date() for moment in latest_scheduled_times(datetime.datetime.now(datetime.UTC), RELEASES)]
    stack = Stack(idle_seconds=BUSY_IDLE_SECONDS)
    begun = time.monotonic()
    there = [day for day in days if (stack.store.published(DEMO, day) / "manifest.json").exists()]
    if there == days:
        require_unchanged(load(REPOSITORY / CONFIG), days, stack.store)
        end = ""
    else:
        _backfill(stack, console, days)
        end = "; no process is left running"
    console.print(f"{_done(len(there), len(days), time.monotonic() - begun)}{end}")
    console.print(series_table(stack.store, DEMO, DEMO))
    newest = stack.store.published(DEMO, days[-1])
    console.print("three things to open next:")
    console.print(f"  the report          {newest / 'report.html'}")
    console.print(f"  the pages           make ui, then http://127.0.0.1:{UI_PORT}{RELEASES_PAGE}")
    console.print(f"  the next 12 months  murmur plan {CONFIG} --releases 12")
    console.print(f"data: {newest.parent}; ledger: {_ledger_file(stack.store)}")


def require_unchanged(config: ReleaseConfig, days: list[datetime.date], store: Store) -> None:
    """Refuse published snapshots that are not those of the present source and settings, or of which a file or an entry
    of the ledger has changed since."""
    with under_way(store, config.population):
        for day in days:
            if not is_already_published(config, day, store):
                raise MurmurError(
                    f"{day} is published, and the ledger does not have it",
                    where=str(store.published(config.release.name, day)),
                    remedy="restore the ledger from a backup, or name another store: MURMUR_STORE=DIR make demo",
                )
        with Ledger.open(store, config.population) as ledger:
            problems = ledger.problems(store)
    if problems:
        raise MurmurError(
            f"the published snapshots are not as they were published: {'; '.join(problems)}",
            where=str(store.root),
            remedy="restore the store from a backup, or name another one: MURMUR_STORE=DIR make demo",
        )


def _backfill(stack: Stack, console: Console, days: list[datetime.date]) -> None:
    """Start the stack, run all snapshots and wait for them."""
    dag_id = f"release_{DEMO}"
    console.print(f"starting PostgreSQL, Airflow and Dask ({stack.workers} workers); logs in {stack.logs}")
    begun = time.monotonic()
    with stack:
        stack.wait_for_dag(dag_id)
        console.print(
            f"ready after {time.monotonic() - begun:.0f} s; backfill of {dag_id} from {days[0]} to {days[-1]}"
        )
        stack.client.end_backfills(dag_id)
        stack.client.backfill(dag_id, days[0], days[-1], reprocess="completed")
        for day in days:
            console.print(f"snapshot {day}")
            _wait(stack, console, dag_id, day)


def _done(before: int, wanted: int, seconds: float) -> str:
    """Say what this run has published, and what was there before."""
    if before == wanted:
        return (
            f"nothing was to be done: all {wanted} snapshots were published before, and source, settings, ledger and "
            f"files are unchanged (checked in {seconds:.0f} s, without starting Airflow; for a new demo name another "
            "store: MURMUR_STORE=DIR make demo)"
        )
    already = f" ({before} of {wanted} snapshots were published before)" if before else ""
    return f"published after {seconds:.0f} s{already}"


def series_table(store: Store, name: str, population: str) -> Table:
    """Return a table of all releases of a series, for 80 columns; new groups are those of newcomers."""
    with Ledger.open(store, population) as ledger:
        releases = describe(ledger, store)["releases"]
    table = Table(box=SIMPLE_HEAD)
    for column in ("snapshot", "people", "groups", "new groups", "waiting", "verdict"):
        table.add_column(column, justify="left" if column in ("snapshot", "verdict") else "right")
    for one in sorted(releases, key=lambda one: (one["snapshot"], one["revision"])):
        directory = one["snapshot"] if not one["revision"] else f"{one['snapshot']}-r{one['revision']}"
        figures = (
            one["people"],
            one["groups"],
            one["new"],
            _waiting(store.root / "private" / name / directory),
        )
        verdict = _verdict(store.root / "published" / name / directory, one["state"])
        table.add_row(directory, *("–" if figure is None else f"{figure:,}" for figure in figures), verdict)
    return table


def _waiting(private: Path) -> int | None:
    path = private / "series.json"
    return read_json(path)["waiting"] if path.exists() else None


def _verdict(published: Path, state: str) -> str:
    if state == "withdrawn":
        return state
    checks = read_json(published / "manifest.json")["checks"]
    judged = [one for one in checks if one["severity"] == "gate" and one["applicable"]]
    passed = sum(one["passed"] for one in judged)
    return f"passed {passed} of {len(judged)} checks"


def _ledger_file(store: Store) -> Path:
    return store.root / "private" / "ledger" / f"{DEMO}.db"


def _wait(stack: Stack, console: Console, dag_id: str, day: datetime.date) -> None:
    """Wait for the run of a snapshot, and print one line for every task that starts, waits for a retry or ends."""

    def print_task(task: dict[str, Any]) -> None:
        state = task["state"]
        if state in ("running", "success", "failed", "up_for_retry", "upstream_failed", "deferred"):
            seconds = f"{task['duration']:6.1f} s" if task["duration"] and state != "running" else ""
            console.print(f"  {task['task_id']:<16}{state:<16}{seconds}")

    (run,) = stack.client.runs(
        dag_id, logical_date_gte=f"{day}T00:00:00Z", logical_date_lte=f"{day}T23:59:59Z"
    )
    state = stack.client.wait(dag_id, run["dag_run_id"], SECONDS, on_change=print_task)
    if state != "success":
        _explain_failure(stack, console, dag_id, run["dag_run_id"])


def _explain_failure(stack: Stack, console: Console, dag_id: str, run_id: str) -> NoReturn:
    """Print the end of the log of each failed task, and raise."""
    failed = [task for task in stack.client.tasks(dag_id, run_id) if task["state"] == "failed"]
    for task in failed:
        console.print(f"\nthe end of the log of {task['task_id']}:")
        for line in stack.client.log(dag_id, run_id, task["task_id"], task["try_number"])[-LOG_LINES:]:
            console.print(f"  | {line}")
    raise StackError(
        f"the demo release failed in: {', '.join(task['task_id'] for task in failed) or 'no task'}",
        where=str(stack.logs),
        remedy="read the log lines above; `make ui` shows the run",
    )
