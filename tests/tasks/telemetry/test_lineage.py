"""Test lineage events against a receiver on loopback: what is sent, what never is, and that failures change nothing."""

import datetime
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tasks import pipeline
from tasks.errors import Refused, UsageError
from tasks.store import Store, make_private, write_json
from tasks.telemetry.lineage import RECEIVERS, is_configured, reported

SNAPSHOT = datetime.date(2026, 1, 1)
LINE = {"severity": "gate", "applicable": True}
CHECKS = [
    {"name": "k-anonymity", "passed": True, **LINE},
    {"name": "utility", "passed": False, **LINE},
    {"name": "rare-items", "passed": True, **LINE, "applicable": False},
    {"name": "ordering", "passed": False, **LINE, "severity": "advisory"},
]


@pytest.fixture(autouse=True)
def _no_receiver(monkeypatch):
    for name in (*RECEIVERS, "OPENLINEAGE_DISABLED", "AIRFLOW_CTX_DAG_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def received(monkeypatch):
    """The events that a receiver got."""
    events = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
    yield events
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def put_verdict(store, *, passed):
    place = store.private("small", SNAPSHOT)
    make_private(place, below=store.root)
    write_json(place / "verdict.json", {"passed": passed, "checks": CHECKS})


def kinds(events):
    return [(event["eventType"], event["job"]["name"]) for event in events]


def test_a_published_release(received, store, config):
    with reported(config(), SNAPSHOT, store):
        put_verdict(store, passed=True)
    expected = [
        ("START", "release_small"),
        ("COMPLETE", "release_small.verdict"),
        ("COMPLETE", "release_small"),
    ]
    assert kinds(received) == expected
    begun, verdict, published = received
    assert (
        verdict["run"]["facets"]["parent"]["run"]["runId"]
        == begun["run"]["runId"]
        == published["run"]["runId"]
    )
    assertions = verdict["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(one["assertion"], one["success"], one["severity"]) for one in assertions] == [
        ("k-anonymity", True, "error"),
        ("utility", False, "error"),
        ("ordering", False, "warn"),
    ]
    assert published["outputs"][0]["name"] == "small"
    assert begun["run"]["facets"]["nominalTime"]["nominalStartTime"].startswith("2026-01-01")


def refuse(store):
    put_verdict(store, passed=False)
    raise Refused("utility failed: person-7 rated film 3")


def break_down(store):
    raise ValueError("person-7")


@pytest.mark.parametrize(
    ("happening", "kind", "why", "jobs"),
    [
        (refuse, Refused, "refused", ["release_small", "release_small.verdict", "release_small"]),
        (break_down, ValueError, "ValueError", ["release_small", "release_small"]),
    ],
)
def test_a_failure_is_sent_by_its_kind(happening, kind, why, jobs, received, store, config):
    with pytest.raises(kind), reported(config(), SNAPSHOT, store):
        happening(store)
    assert [job for _, job in kinds(received)] == jobs
    assert received[-1]["eventType"] == "FAIL"
    assert received[-1]["run"]["facets"]["errorMessage"]["message"] == why
    assert "person-7" not in json.dumps(received)


def test_tasks_of_an_airflow_run_are_one_run(received, store, config, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "scheduled__2026-01-01")
    for step in ("ingest", "padding", "validate", "publish"):
        with reported(config(), SNAPSHOT, store, step):
            if step == "validate":
                put_verdict(store, passed=True)
    assert [kind for kind, _ in kinds(received)] == ["START", "COMPLETE", "COMPLETE"]
    assert len({event["run"]["runId"] for event in received if "parent" not in event["run"]["facets"]}) == 1


def test_the_password_of_a_database_is_nowhere(received, store, config, tmp_path):
    (tmp_path / "password").write_text("hush")
    sql = {
        "url": "postgresql://reader@host/shop",
        "query": "SELECT 1",
        "password_file": str(tmp_path / "password"),
    }
    with reported(config(source={"format": "sql", "scale": [1, 5], "sql": sql}), SNAPSHOT, store):
        pass
    assert received[0]["inputs"][0]["namespace"] == "postgresql://reader@host/shop"
    assert "hush" not in json.dumps(received)


def test_a_receiver_that_does_not_answer_changes_nothing(store, config, monkeypatch, caplog):
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    with reported(config(), SNAPSHOT, store, "ingest"):
        pass
    assert "an OpenLineage event could not be sent" in caplog.text


def test_nothing_is_sent_unless_asked_for(store, config, monkeypatch):
    assert not is_configured()
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    assert is_configured()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not is_configured()


def test_the_pipeline_reports_itself(received, store, config, monkeypatch):
    """A source that is not there ends the run: begun and failed, with the kind alone."""
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    lost = config(source={"format": "csv", "path": "/nowhere/person-7.csv", "scale": [1, 5]})
    with pytest.raises(UsageError):
        pipeline.run(lost, SNAPSHOT, store)
    assert kinds(received) == [("START", "release_small"), ("FAIL", "release_small")]
    assert received[-1]["run"]["facets"]["errorMessage"]["message"] == "UsageError"
