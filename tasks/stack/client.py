"""A small client of Airflow's REST API (v2): trigger, backfill, watch."""

import datetime
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

from tasks.stack.processes import StackError

FINISHED = {"success", "failed"}


class AirflowClient:
    """Speaks to the API server at `url`."""

    def __init__(self, url: str, alive: Callable[[], None] = lambda: None) -> None:
        self.url = url
        self._alive = alive  # raises when the stack has died: waiting on would be in vain
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # never via a proxy

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call of the API: `path` below /api/v2, JSON in, JSON out."""
        request = urllib.request.Request(  # noqa: S310 (always http on loopback)
            f"{self.url}/api/v2{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        try:
            with self._open(request, timeout=60) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")[:1000]
            raise ApiError(
                error.code, f"Airflow answered {error.code} to {method} {path}: {detail}"
            ) from None
        return json.loads(text) if text else None

    def healthy(self) -> bool:
        """Are the database, scheduler, triggerer and DAG processor all up?"""
        try:
            health = self.api("GET", "/monitor/health")
        except (OSError, StackError):
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def has_dag(self, dag_id: str) -> bool:
        """Has the DAG processor found this DAG?"""
        try:
            self.api("GET", f"/dags/{dag_id}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def trigger(self, dag_id: str, logical_date: datetime.datetime | None) -> str:
        """Start a run (one that exists for this date is cleared and starts afresh) and return its id.

        The run is created before the DAG is unpaused: the scheduler then finds its own newest tick taken
        instead of adding a second run of the same snapshot.
        """
        moment = logical_date.isoformat() if logical_date else None
        try:
            run_id = self.api("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": moment})["dag_run_id"]
        except ApiError as error:
            if error.status != 409:
                raise
            run_id = self.runs(dag_id, logical_date_gte=moment, logical_date_lte=moment)[0]["dag_run_id"]
            self.api("POST", f"/dags/{dag_id}/dagRuns/{_quote(run_id)}/clear", {"dry_run": False})
        self.unpause(dag_id)
        return run_id

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run this DAG."""
        self.api("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def backfill(
        self, dag_id: str, first: datetime.date, last: datetime.date, *, reprocess: str = "none"
    ) -> int:
        """Run the scheduled snapshots from `first` to `last`, oldest first, one at a time; return the id.

        The DAG is unpaused, or Airflow would create the runs and leave them waiting.
        """
        body = {
            "dag_id": dag_id,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T23:59:59Z",
            "reprocess_behavior": reprocess,
            "max_active_runs": 1,
        }
        backfill = self.api("POST", "/backfills", body)
        self.unpause(dag_id)
        return backfill["id"]

    def wait_backfill(self, backfill_id: int, timeout: float) -> None:
        """Wait until a backfill has run out of runs."""
        self._wait(
            lambda: bool(self.api("GET", f"/backfills/{backfill_id}")["completed_at"]),
            "the backfill",
            timeout,
        )

    def runs(self, dag_id: str, **filters: Any) -> list[dict[str, Any]]:
        """The runs of a DAG, oldest first."""
        query = urllib.parse.urlencode({"order_by": "logical_date", **filters})
        return self.api("GET", f"/dags/{dag_id}/dagRuns?{query}")["dag_runs"]

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run."""
        return self.api("GET", f"/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances")["task_instances"]

    def wait(
        self,
        dag_id: str,
        run_id: str,
        timeout: float,
        on_change: Callable[[dict[str, Any]], None] = lambda task: None,
    ) -> str:
        """Wait for a run to end and return its state; `on_change` hears of every task that changes state."""
        seen: dict[str, str | None] = {}

        def ended() -> bool:
            state = self.api("GET", f"/dags/{dag_id}/dagRuns/{_quote(run_id)}")["state"]
            for task in sorted(self.tasks(dag_id, run_id), key=lambda t: t["start_date"] or ""):
                if seen.get(task["task_id"]) != task["state"]:
                    seen[task["task_id"]] = task["state"]
                    on_change(task)
            return state in FINISHED

        self._wait(ended, f"run {run_id} of {dag_id}", timeout)
        return self.api("GET", f"/dags/{dag_id}/dagRuns/{_quote(run_id)}")["state"]

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> list[str]:
        """The lines a task logged."""
        place = f"/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances/{task_id}/logs/{attempt}"
        return list(_lines(self.api("GET", f"{place}?full_content=true")["content"]))

    def _wait(self, done: Callable[[], bool], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            self._alive()
            if time.monotonic() > deadline:
                raise StackError(
                    f"{what} did not end within {timeout:.0f} s", remedy="look at it with `make ui`"
                )
            time.sleep(1)


class ApiError(StackError):
    """Airflow refused a request."""

    def __init__(self, status: int, what: str) -> None:
        self.status = status
        super().__init__(what)

    def __reduce__(self) -> tuple:
        return (type(self), (self.status, self.what))


def _lines(content: Iterable[Any]) -> Iterable[str]:
    for entry in content:
        if isinstance(entry, str):
            yield entry
            continue
        yield str(entry.get("event", ""))
        for detail in entry.get("error_detail") or []:
            yield f"{detail.get('exc_type')}: {detail.get('exc_value')}"


def _quote(run_id: str) -> str:
    return urllib.parse.quote(run_id, safe="")
