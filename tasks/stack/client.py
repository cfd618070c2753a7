"""Call Airflow's REST API (v2): trigger runs, start backfills, wait for both, read logs."""

import datetime
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any
from urllib.parse import quote

import httpx

from tasks.stack.processes import StackError

FINISHED = {"success", "failed"}
REQUEST_SECONDS = 60.0
POLL_SECONDS = 1.0


class AirflowClient:
    """Call the API server at `url`; `check_alive` raises if the stack has died, so that no wait is in vain."""

    def __init__(
        self,
        url: str,
        check_alive: Callable[[], None] = lambda: None,
        transport: httpx.BaseTransport | None = None,
        login: Callable[[], tuple[str, str]] | None = None,
    ) -> None:
        self.url = url
        self._check_alive = check_alive
        self._http = httpx.Client(
            base_url=f"{url}/api/v2",
            timeout=REQUEST_SECONDS,
            trust_env=False,  # the API is on loopback: a proxy named in the environment must not see it
            limits=httpx.Limits(max_keepalive_connections=0),  # no idle connection outlives a stopped stack
            transport=transport,
            auth=_Login(f"{url}/auth/token", login) if login else None,
        )

    def api(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> Any:
        """Make one call and return its JSON; `path` is below /api/v2."""
        try:
            response = self._http.request(method, path, json=body, params=parameters)
        except httpx.TransportError as error:
            raise StackError(
                f"Airflow did not answer to {method} {path} ({type(error).__name__})",
                where=self.url,
                remedy="read the log of the API server",
            ) from None
        if response.is_error:
            raise ApiError(
                response.status_code,
                f"Airflow answered {response.status_code} to {method} {path}: {response.text[:1000]}",
            )
        return response.json() if response.content else None

    def healthy(self) -> bool:
        """Test whether database, scheduler, triggerer and DAG processor are all up."""
        try:
            health = self.api("GET", "/monitor/health")
        except StackError:
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def has_dag(self, dag_id: str) -> bool:
        """Test whether the DAG processor has found this DAG."""
        try:
            self.api("GET", f"/dags/{dag_id}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def trigger(self, dag_id: str, logical_date: datetime.datetime | None) -> str:
        """Start a run and return its id; a run that exists for this date is cleared and starts again.

        The run is created before the DAG is unpaused: the scheduler then finds that its newest date has a run, and
        does not add a second run of the same snapshot.
        """
        date = logical_date.isoformat() if logical_date else None
        try:
            run_id = self.api("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": date})["dag_run_id"]
        except ApiError as error:
            if error.status != 409:
                raise
            run_id = self.runs(dag_id, logical_date_gte=date, logical_date_lte=date)[0]["dag_run_id"]
            self.api("POST", f"{_run_path(dag_id, run_id)}/clear", {"dry_run": False})
        self.unpause(dag_id)
        return run_id

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run this DAG."""
        self.api("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def backfill(
        self, dag_id: str, first: datetime.date, last: datetime.date, *, reprocess: str = "none"
    ) -> int:
        """Run the scheduled snapshots from `first` to `last`, oldest first, one at a time; return the backfill's id.

        The DAG is unpaused; otherwise Airflow would create the runs and leave them waiting.
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

    def end_backfills(self, dag_id: str) -> None:
        """End the backfills of a DAG that Airflow takes for running: a second one would be refused.

        Airflow looks only now and then whether all runs of a backfill have ended, so that of a stack that was stopped
        soon afterwards is still open. Runs that have ended stay as they are; those that have not begun are cancelled.
        """
        for backfill in self.api("GET", "/backfills", parameters={"dag_id": dag_id})["backfills"]:
            if backfill["completed_at"] is None:
                self.api("PUT", f"/backfills/{backfill['id']}/cancel")

    def runs(self, dag_id: str, **filters: Any) -> list[dict[str, Any]]:
        """Return the runs of a DAG, oldest first."""
        parameters = {"order_by": "logical_date", **filters}
        return self.api("GET", f"/dags/{dag_id}/dagRuns", parameters=parameters)["dag_runs"]

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        return self.api("GET", f"{_run_path(dag_id, run_id)}/taskInstances")["task_instances"]

    def wait(
        self,
        dag_id: str,
        run_id: str,
        timeout: float,
        on_change: Callable[[dict[str, Any]], None] = lambda task: None,
    ) -> str:
        """Wait for a run to end and return its state; call `on_change` for every task that changes state."""
        task_states: dict[str, str | None] = {}

        def ended() -> bool:
            state = self.api("GET", _run_path(dag_id, run_id))["state"]
            for task in sorted(self.tasks(dag_id, run_id), key=lambda t: t["start_date"] or ""):
                if task_states.get(task["task_id"]) != task["state"]:
                    task_states[task["task_id"]] = task["state"]
                    on_change(task)
            return state in FINISHED

        self._wait_until(ended, f"run {run_id} of {dag_id}", timeout)
        return self.api("GET", _run_path(dag_id, run_id))["state"]

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> list[str]:
        """Return the lines that an attempt of a task logged."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{task_id}/logs/{attempt}"
        return list(_log_lines(self.api("GET", path, parameters={"full_content": True})["content"]))

    def _wait_until(self, ended: Callable[[], bool], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ended():
            self._check_alive()
            if time.monotonic() > deadline:
                raise StackError(
                    f"{what} did not end within {timeout:.0f} s", remedy="look at it with `make ui`"
                )
            time.sleep(POLL_SECONDS)


class _Login(httpx.Auth):
    """Add a token to every request; where Airflow refuses it, log in (`login` returns user and password) and repeat."""

    requires_response_body = True

    def __init__(self, url: str, login: Callable[[], tuple[str, str]]) -> None:
        self._url, self._login = url, login
        self._token = ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request, at most twice."""
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code != httpx.codes.UNAUTHORIZED:
            return
        user, password = self._login()
        answer = yield httpx.Request("POST", self._url, json={"username": user, "password": password})
        if answer.is_success:
            self._token = answer.json()["access_token"]
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request


class ApiError(StackError):
    """Report that Airflow refused a request."""

    def __init__(self, status: int, what: str) -> None:
        self.status = status
        super().__init__(what)

    def __reduce__(self) -> tuple:
        return (type(self), (self.status, self.what))


def _log_lines(content: Iterable[Any]) -> Iterable[str]:
    for entry in content:
        if isinstance(entry, str):
            yield entry
            continue
        yield str(entry.get("event", ""))
        for detail in entry.get("error_detail") or []:
            yield f"{detail.get('exc_type')}: {detail.get('exc_value')}"


def _run_path(dag_id: str, run_id: str) -> str:
    """Return the path of a run; its id contains characters that a path must not."""
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
