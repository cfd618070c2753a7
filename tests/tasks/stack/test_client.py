"""Test the client of Airflow's API against recorded answers, without Airflow."""

import datetime
import json
import pickle

import httpx
import pytest

from tasks.stack import client as client_module
from tasks.stack.client import AirflowClient, ApiError
from tasks.stack.processes import StackError

DATE = datetime.datetime(2026, 4, 1, 3, tzinfo=datetime.UTC)
RUN_ID = "scheduled__2026-04-01T03:00:00+00:00"
QUOTED = "scheduled__2026-04-01T03%3A00%3A00%2B00%3A00"


@pytest.fixture
def airflow(monkeypatch):
    """Make a client whose requests are answered by a function, and record the requests."""
    monkeypatch.setattr(client_module, "POLL_SECONDS", 0.0)
    requests: list[tuple[str, str, object]] = []

    def make(answer, **options):
        def handle(request: httpx.Request) -> httpx.Response:
            body = json.loads(request.content) if request.content else None
            requests.append((request.method, request.url.raw_path.decode(), body))
            return answer(request)

        client = AirflowClient("http://127.0.0.1:1", transport=httpx.MockTransport(handle), **options)
        return client, requests

    return make


def answers(*payloads):
    """Answer each request with the next payload; an integer is an error status."""
    remaining = iter(payloads)

    def answer(request):
        payload = next(remaining)
        if isinstance(payload, int):
            return httpx.Response(payload, text="why")
        return httpx.Response(200, json=payload)

    return answer


def test_call_sends_json_below_api_v2(airflow):
    client, requests = airflow(answers({"a": 1}))
    assert client.api("POST", "/dags/x", {"b": 2}) == {"a": 1}
    assert requests == [("POST", "/api/v2/dags/x", {"b": 2})]


def test_login_where_a_token_is_missing_or_no_longer_valid(airflow):
    """The client logs in when it is refused, sends the token from then on, and logs in again when it has expired."""
    tokens = iter(["first", "second"])
    valid = "Bearer first"
    refused = []

    def answer(request):
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": next(tokens)})
        if request.headers.get("Authorization") != valid:
            refused.append(request.url.path)
            return httpx.Response(401, text="log in")
        return httpx.Response(200, json={"a": 1})

    client, requests = airflow(answer, login=lambda: ("admin", "sesame"))
    assert client.api("GET", "/dags/x") == {"a": 1}
    assert client.api("POST", "/dags/y", {"b": 2}) == {"a": 1}
    assert len(refused) == 1
    assert requests[1] == ("POST", "/auth/token", {"username": "admin", "password": "sesame"})
    valid = "Bearer second"
    assert client.api("POST", "/dags/z", {"b": 3}) == {"a": 1}
    assert requests[-1] == ("POST", "/api/v2/dags/z", {"b": 3})


def test_a_wrong_password_is_an_error(airflow):
    client, requests = airflow(lambda request: httpx.Response(401, text="no"), login=lambda: ("admin", "x"))
    with pytest.raises(ApiError, match="answered 401"):
        client.api("GET", "/dags/x")
    assert len(requests) == 2


def test_empty_answer_is_none(airflow):
    client, _ = airflow(lambda request: httpx.Response(204))
    assert client.api("DELETE", "/dags/x") is None


def test_refused_request_raises_status_and_text(airflow):
    client, _ = airflow(answers(422))
    with pytest.raises(ApiError, match="answered 422 to GET /dags/x: why") as caught:
        client.api("GET", "/dags/x")
    assert caught.value.status == 422
    assert pickle.loads(pickle.dumps(caught.value)).status == 422


def test_no_answer_is_a_stack_error(airflow):
    def fail(request):
        raise httpx.ConnectError("refused")

    client, _ = airflow(fail)
    with pytest.raises(StackError, match="did not answer to GET /dags/x"):
        client.api("GET", "/dags/x")
    assert client.healthy() is False


def test_proxies_of_the_environment_are_ignored(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:3128")
    assert AirflowClient("http://127.0.0.1:1")._http._mounts == {}


@pytest.mark.parametrize(("status", "healthy"), [("healthy", True), ("unhealthy", False), (None, False)])
def test_healthy_needs_all_four_components(airflow, status, healthy):
    components = {part: {"status": "healthy"} for part in ("metadatabase", "scheduler", "dag_processor")}
    client, _ = airflow(answers({**components, "triggerer": {"status": status}}))
    assert client.healthy() is healthy


def test_missing_dag_and_other_errors_differ(airflow):
    client, _ = airflow(answers({}, 404, 500))
    assert client.has_dag("x")
    assert not client.has_dag("x")
    with pytest.raises(ApiError):
        client.has_dag("x")


def test_trigger_creates_run_then_unpauses(airflow):
    client, requests = airflow(answers({"dag_run_id": RUN_ID}, {}))
    assert client.trigger("x", DATE) == RUN_ID
    assert requests == [
        ("POST", "/api/v2/dags/x/dagRuns", {"logical_date": "2026-04-01T03:00:00+00:00"}),
        ("PATCH", "/api/v2/dags/x", {"is_paused": False}),
    ]


def test_trigger_clears_an_existing_run(airflow):
    client, requests = airflow(answers(409, {"dag_runs": [{"dag_run_id": RUN_ID}]}, {}, {}))
    assert client.trigger("x", DATE) == RUN_ID
    date = "2026-04-01T03%3A00%3A00%2B00%3A00"
    query = f"order_by=logical_date&logical_date_gte={date}&logical_date_lte={date}"
    assert requests[1][:2] == ("GET", f"/api/v2/dags/x/dagRuns?{query}")
    assert requests[2] == ("POST", f"/api/v2/dags/x/dagRuns/{QUOTED}/clear", {"dry_run": False})


def test_backfill_covers_whole_days_and_unpauses(airflow):
    client, requests = airflow(answers({"id": 7}, {}))
    assert client.backfill("x", datetime.date(2026, 2, 1), datetime.date(2026, 4, 1)) == 7
    assert requests[0][2]["from_date"] == "2026-02-01T00:00:00Z"
    assert requests[0][2]["to_date"] == "2026-04-01T23:59:59Z"
    assert requests[1][1:] == ("/api/v2/dags/x", {"is_paused": False})


def test_open_backfills_are_ended(airflow):
    listed = [{"id": 3, "completed_at": "2026-04-01T00:00:00Z"}, {"id": 4, "completed_at": None}]
    client, requests = airflow(answers({"backfills": listed}, {}))
    client.end_backfills("x")
    assert requests == [
        ("GET", "/api/v2/backfills?dag_id=x", None),
        ("PUT", "/api/v2/backfills/4/cancel", None),
    ]


def test_wait_reports_each_change_once(airflow):
    def tasks(*states):
        return {
            "task_instances": [
                {"task_id": f"t{number}", "state": state, "start_date": None}
                for number, state in enumerate(states)
            ]
        }

    client, requests = airflow(
        answers(
            {"state": "running"}, tasks("running", None), {"state": "running"}, tasks("success", "running"),
            {"state": "success"}, tasks("success", "success"), {"state": "success"},
        )
    )  # fmt: skip
    changes = []
    state = client.wait(
        "x", RUN_ID, 5, on_change=lambda task: changes.append((task["task_id"], task["state"]))
    )
    assert state == "success"
    assert changes == [("t0", "running"), ("t0", "success"), ("t1", "running"), ("t1", "success")]
    assert requests[0][1] == f"/api/v2/dags/x/dagRuns/{QUOTED}"


def test_wait_ends_at_the_deadline_and_when_the_stack_dies(airflow):
    running = {"state": "running", "task_instances": []}
    client, _ = airflow(lambda request: httpx.Response(200, json=running))
    with pytest.raises(StackError, match="did not end within 0 s"):
        client.wait("x", RUN_ID, 0)

    def dead():
        raise StackError("scheduler ended")

    client, _ = airflow(lambda request: httpx.Response(200, json=running), check_alive=dead)
    with pytest.raises(StackError, match="scheduler ended"):
        client.wait("x", RUN_ID, 5)


def test_log_flattens_entries_and_errors(airflow):
    content = [
        "plain",
        {"event": "said"},
        {"event": "e", "error_detail": [{"exc_type": "T", "exc_value": "v"}]},
    ]
    client, requests = airflow(answers({"content": content}))
    assert client.log("x", RUN_ID, "ingest", 2) == ["plain", "said", "e", "T: v"]
    assert requests[0][1].endswith(f"{QUOTED}/taskInstances/ingest/logs/2?full_content=true")
