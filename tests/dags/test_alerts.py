"""Test alerts with local receivers: a webhook and a mail server; what they say, and what they never say."""

import contextlib
import datetime
import email
import email.policy
import http.server
import json
import logging
import socketserver
import threading
from types import SimpleNamespace

import pytest

from tasks.config import parse
from tasks.errors import UsageError
from tasks.store import Store, write_json
from tests.dags.test_verdicts import REFUSAL, VERDICT, Ti

DAY = datetime.datetime(2026, 3, 1, 3, tzinfo=datetime.UTC)
SECRET = "user-4711 of postgresql://murmur:password@host"


@pytest.fixture(scope="module", autouse=True)
def airflow_loaded():
    """Load Airflow before a test looks at the log: it sets up logging when it is imported."""
    import murmur_airflow.alerts  # noqa: F401


@pytest.fixture(autouse=True)
def address(monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")


def config(**alerts):
    return parse(
        {
            "release": {"name": "films", "schedule": "0 3 1 * *"},
            "source": {"format": "synthetic"},
            "alerts": alerts,
        }
    )


@contextlib.contextmanager
def serving(handler):
    """Run a server on a free port of this machine."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def hook(monkeypatch):
    """A webhook, and what it was sent: path, headers and JSON."""
    taken = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(500 if "broken" in self.path else 204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with serving(Receiver) as port:
        known = {"conn_type": "http", "host": "http://127.0.0.1", "port": port, "password": "token"}
        for name in ("hook", "broken"):
            found = {**known, "extra": {"endpoint": f"/alerts/{name}"}}
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(found))
        yield taken


@pytest.fixture
def mailbox(monkeypatch):
    """A mail server, and the letters it took."""
    taken = []

    class Receiver(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                word = line[:4].upper()
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    letter = b"".join(iter(self.rfile.readline, b".\r\n"))
                    taken.append(email.message_from_bytes(letter, policy=email.policy.default))
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
                if word == b"QUIT":
                    return

    with serving(Receiver) as port:
        found = {"conn_type": "smtp", "host": "127.0.0.1", "port": port}
        found["extra"] = {
            "from_email": "murmur@example.org",
            "disable_ssl": True,
            "disable_tls": True,
            "retry_limit": 1,
        }
        monkeypatch.setenv("AIRFLOW_CONN_LETTERS", json.dumps(found))
        yield taken


def context(task_id, exception=None, verdict=None):
    ti = Ti(validate_verdict=verdict)
    ti.dag_id, ti.run_id, ti.task_id = "release_films", "manual__2026-03-01T03:00:00+00:00", task_id
    return {"ti": ti, "logical_date": DAY, "exception": exception}


def alert(event=None, **alerts):
    from murmur_airflow.alerts import ReleaseAlert

    return ReleaseAlert(config(**alerts).alerts, "films", event)


RUN = "https://airflow.example/dags/release_films/runs/manual__2026-03-01T03%3A00%3A00%2B00%3A00"


def test_refusal(hook, mailbox):
    """A refusal reaches webhook and mailbox, with the checks that failed and links; the text of the error does not."""
    from murmur_airflow.outcome import ReleaseRefused

    alert(webhook_connection="hook", mail_to=["owner@example.org"], mail_connection="letters")(
        context("validate", ReleaseRefused(SECRET), REFUSAL)
    )
    ((path, headers, message),) = hook
    assert path == "/alerts/hook"
    assert headers["Authorization"] == "Bearer token"
    assert message == {
        "event": "refused",
        "release": "films",
        "snapshot": "2026-03-01",
        "summary": "films 2026-03-01: the gate refused the release; nothing is published",
        "verdict": REFUSAL["sentence"],
        "failed": [{"name": "homogeneity", "words": "measured 0.3, limit 0.2."}],
        "report": REFUSAL["report"],
        "task": "validate",
        "run": RUN,
    }
    (letter,) = mailbox
    assert (
        letter["Subject"]
        == "[murmuration] films 2026-03-01: the gate refused the release; nothing is published"
    )
    assert letter["From"] == "murmur@example.org"
    assert letter["To"] == "owner@example.org"
    text = letter.get_body(("html",)).get_content()
    assert "<li>homogeneity: measured 0.3, limit 0.2.</li>" in text
    assert f'<a href="{REFUSAL["report"]}">Report</a>' in text
    assert "4711" not in text + json.dumps(message)


def test_failure_never_quotes_the_exception(hook, caplog):
    """An alert about a fault says where, and nothing that a foreign library wrote."""
    with caplog.at_level(logging.INFO, "murmur"):
        alert(webhook_connection="hook")(context("padding", ValueError(SECRET)))
    ((_, _, message),) = hook
    assert message["event"] == "failed"
    assert message["task"] == "padding"
    assert message["summary"] == "films 2026-03-01: the run failed; nothing is published"
    assert message["releases"] == "https://airflow.example/murmur"
    assert "verdict" not in message
    for secret in ("4711", "password", "postgresql"):
        assert secret not in json.dumps(message)
        assert secret not in caplog.text


def test_waiting_for_approval(hook):
    """Whoever approves is given the verdict, the report and the form."""
    alert("approval", webhook_connection="hook")(context("approve", None, VERDICT))
    ((_, _, message),) = hook
    assert message["event"] == "approval"
    assert message["verdict"] == VERDICT["sentence"]
    assert message["report"] == VERDICT["report"]
    assert message["decide"] == f"{RUN}/tasks/approve/required_actions"


def test_rejection(hook):
    """A rejection, or no answer in time, is said to be that."""
    from murmur_airflow.outcome import NotApproved

    alert(webhook_connection="hook")(context("approve", NotApproved("no"), VERDICT))
    ((_, _, message),) = hook
    assert message["event"] == "failed"
    assert message["summary"] == "films 2026-03-01: a person rejected it, or nobody answered in time"


def test_chosen_events(hook, caplog):
    """What is not asked for is not sent; without a channel the log has it."""
    alert(webhook_connection="hook", on=["approval"])(context("padding", ValueError("x")))
    assert hook == []
    with caplog.at_level(logging.INFO, "murmur"):
        alert()(context("padding", ValueError("x")))
    assert "ALERT {" in caplog.text


@pytest.mark.parametrize("connection", ["broken", "unknown"])
def test_a_channel_that_fails(hook, mailbox, caplog, connection):
    """A webhook that refuses, or a connection that Airflow does not know, stops neither the mail nor the task."""
    from murmur_airflow.alerts import compose, send

    wanted = config(webhook_connection=connection, mail_to=["owner@example.org"], mail_connection="letters")
    with caplog.at_level(logging.INFO, "murmur"):
        sent = send(wanted.alerts, compose("failed", "films", "2026-03-01"))
    assert sent == ["log", "mail"]
    assert len(mailbox) == 1
    assert "the alert could not be sent by webhook" in caplog.text
    assert "token" not in caplog.text


def test_verdict_that_cannot_be_read(hook):
    """The process that reports a killed task may not ask for its results; the alert is sent all the same."""
    asked = context("validate", RuntimeError("killed"))
    asked["ti"] = SimpleNamespace(
        dag_id="release_films", run_id="r", task_id="validate", xcom_pull=lambda **_: 1 / 0
    )
    alert(webhook_connection="hook")(asked)
    ((_, _, message),) = hook
    assert message["event"] == "failed"


def test_no_tag_opens_in_a_letter():
    """What comes from a name or a figure cannot become a tag or a template."""
    from murmur_airflow.alerts import compose, in_html

    message = compose("refused", "films", "<b>{{ 7 * 7 }}", {**REFUSAL, "sentence": "<script>"})
    text = in_html(message)
    assert "<b>" not in text
    assert "<script>" not in text
    assert "{{ 7 * 7 }}" in text


@pytest.mark.parametrize(
    ("now", "begun", "expected"),
    [
        ("2026-03-01T12:00", False, None),  # due since nine hours: February's is there
        ("2026-03-02T04:00", False, "2026-03-01"),
        ("2026-03-02T04:00", True, "2026-03-01"),  # begun, and no verdict
        ("2026-01-01T01:00", False, None),  # nothing has been due
    ],
)
def test_late_snapshot(tmp_path, monkeypatch, now, begun, expected):
    """A snapshot is late a day after its time, unless it was judged."""
    from murmur_airflow.alerts import late_snapshot

    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "store"))
    own = Store().root / "private" / "films"
    (own / "2026-02-01").mkdir(parents=True)
    write_json(own / "2026-02-01" / "verdict.json", {"passed": False, "failed": ["homogeneity"]})
    if begun:
        (own / "2026-03-01" / "work").mkdir(parents=True)
    moment = datetime.datetime.fromisoformat(now).replace(tzinfo=datetime.UTC)
    assert late_snapshot(config(), moment) == expected
    without = parse({"release": {"name": "films"}, "source": {"format": "synthetic"}, "alerts": {}})
    assert late_snapshot(without, moment) is None


def test_look(tmp_path, monkeypatch, hook, caplog):
    """The daily look alerts about a snapshot that has not arrived, and says so when none is overdue."""
    from murmur_airflow.work import look

    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "store"))
    done = look(config(webhook_connection="hook", late_hours=1))
    ((_, _, message),) = hook
    assert message["event"] == "late"
    assert message["snapshot"] == done["late"]
    assert done["sent"] == ["log", "webhook"]
    own = Store().root / "private" / "films" / done["late"]
    own.mkdir(parents=True)
    write_json(own / "verdict.json", {"passed": False})
    with caplog.at_level(logging.INFO, "murmur"):
        assert look(config(webhook_connection="hook", late_hours=1)) == {
            "late": None,
            "expiring": {},
            "sent": [],
        }
    assert len(hook) == 1


def test_every_expiring_snapshot_is_alerted_about(tmp_path, monkeypatch, hook):
    """All that are missing, each with the day on which the source deletes it, whether or not it is the newest."""
    from murmur_airflow import work

    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "store"))

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 3, 20, 6, 30, tzinfo=tz)

    monkeypatch.setattr(work.datetime, "datetime", Clock)
    watched = config(webhook_connection="hook", on=["expiring"], source_days=50, warning_days=31)
    done = work.look(watched)
    assert done["expiring"] == {"2026-02-01": "2026-03-23", "2026-03-01": "2026-04-20"}
    assert done["sent"] == ["webhook", "webhook"] or done["sent"] == ["log", "webhook"] * 2
    assert [(one["event"], one["snapshot"], one["source_until"]) for _, _, one in hook] == [
        ("expiring", "2026-02-01", "2026-03-23"),
        ("expiring", "2026-03-01", "2026-04-20"),
    ]
    assert watched.alerts.looks_daily
    assert not config(on=["expiring"]).alerts.looks_daily


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"webhook_connection": "https://me:password@host/"}, "name a connection of Airflow"),
        ({"mail_to": ["owner"]}, "'owner' is not an e-mail address"),
        ({"mail_to": ["a@b.org\nBcc: c@d.org"]}, "is not an e-mail address"),
        ({"on": ["never"]}, "alerts.on"),
        ({"late_hours": 0}, "alerts.late_hours"),
        ({"password": "x"}, "alerts.password: unknown key"),
    ],
)
def test_settings(table, expected):
    """What cannot work, and anything that looks like a secret, is refused with the key's name."""
    with pytest.raises(UsageError, match=expected):
        config(**table)


def test_nothing_without_the_table():
    """Without a table [alerts] nobody is alerted, and no settings of what is published change."""
    from tasks.series.repeated import _quick_state

    plain = parse({"release": {"name": "films"}, "source": {"format": "synthetic"}})
    assert not plain.is_alerting
    assert config().is_alerting
    day = datetime.date(2026, 3, 1)
    assert _quick_state(plain, day) == _quick_state(config(late_hours=7), day)
