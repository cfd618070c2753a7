"""Run `make demo`, `make ui` and the stack's part of `make clean`: `python -m tasks.stack demo|ui|clean`."""

import argparse
import datetime
import signal
import sys
import time
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console

from tasks.errors import MurmurError
from tasks.stack.processes import StackError
from tasks.stack.settings import UI_USER, password_file
from tasks.stack.supervisor import Stack, latest_scheduled_time

DEMO = "demo"
UI_PORT = 8080
DEMO_SECONDS = 900.0
LOG_LINES = 30

console = Console(highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tasks.stack", description=__doc__)
    parser.add_argument("command", choices=["demo", "ui", "clean"])
    parser.add_argument("--port", type=int, default=UI_PORT, help="port of the user interface (ui only)")
    chosen = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        if chosen.command == "demo":
            demo()
        elif chosen.command == "ui":
            serve(chosen.port)
        else:
            Stack().clean()
    except MurmurError as error:
        console.print(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        console.print("stopped; no process is left running")
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    return 0


def demo() -> None:
    """Publish the demo release for the latest date of its schedule."""
    scheduled = latest_scheduled_time(datetime.datetime.now(datetime.UTC))
    dag_id = f"release_{DEMO}"
    stack = Stack()
    console.print(f"starting PostgreSQL, Airflow and Dask ({stack.workers} workers); logs in {stack.logs}")
    begun = time.monotonic()
    with stack:
        stack.wait_for_dag(dag_id)
        console.print(
            f"ready after {time.monotonic() - begun:.0f} s; running {dag_id} for snapshot {scheduled.date()}"
        )
        run_id = stack.client.trigger(dag_id, scheduled)
        state = stack.client.wait(dag_id, run_id, DEMO_SECONDS, on_change=_print_task)
        if state != "success":
            _explain_failure(stack, dag_id, run_id)
    published = stack.store.published(DEMO, scheduled.date())
    console.print(f"published after {time.monotonic() - begun:.0f} s; no process is left running")
    console.print(f"  release  {published}")
    console.print(f"  report   {published / 'report.html'}")
    console.print(f"  UI       make ui   (this run, its tasks and logs on http://127.0.0.1:{UI_PORT})")


def serve(port: int) -> None:
    """Keep the stack running until Ctrl-C."""
    stack = Stack(port=port)
    console.print(f"starting PostgreSQL, Airflow and Dask ({stack.workers} workers); logs in {stack.logs}")
    with stack:
        console.print(
            f"Airflow is on {stack.url} (Ctrl-C stops everything); releases go to {stack.store.root}"
        )
        console.print(f"log in as {UI_USER}; the password is in {password_file(stack.state)}")
        while True:
            stack.check()
            time.sleep(1)


def _print_task(task: dict[str, Any]) -> None:
    """Print one line for every task that starts, waits for a retry or ends."""
    state = task["state"]
    if state in ("running", "success", "failed", "up_for_retry", "upstream_failed", "deferred"):
        seconds = f"{task['duration']:6.1f} s" if task["duration"] and state != "running" else ""
        console.print(f"  {task['task_id']:<16}{state:<16}{seconds}")


def _explain_failure(stack: Stack, dag_id: str, run_id: str) -> NoReturn:
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


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    sys.exit(main())
