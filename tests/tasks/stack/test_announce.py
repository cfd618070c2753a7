"""Test that a withdrawal from the command line is announced to a configured Airflow, without Airflow."""

import json

import httpx
import pytest

from tasks.stack.announce import announce

EVENT = {
    "asset": "murmur://films_2",
    "extra": {"state": "withdrawn", "snapshot": "2026-01-01", "reason": "it's wrong"},
}
ASSETS = {
    "assets": [
        {"id": 3, "uri": "murmur://filmsx2"},  # _ stands for any character in Airflow's search
        {"id": 7, "uri": "murmur://films_2/"},
    ]
}


class Airflow(httpx.MockTransport):
    """Answer like Airflow, and record what it was sent; `status` of the event is the answer to it."""

    def __init__(self, assets=ASSETS, status=200):
        super().__init__(self.answer)
        self.assets, self.status, self.events, self.logins = assets, status, [], []

    def answer(self, request):
        if request.url.path == "/auth/token":
            self.logins.append(json.loads(request.content))
            return httpx.Response(201, json={"access_token": "t"})
        if request.headers.get("Authorization") != "Bearer t":
            return httpx.Response(401)
        if request.method == "GET":
            assert request.url.params["uri_pattern"] == EVENT["asset"]
            return httpx.Response(200, json=self.assets)
        self.events.append(json.loads(request.content))
        return httpx.Response(self.status, json={})


@pytest.fixture
def configured(tmp_path, monkeypatch):
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setenv("MURMUR_AIRFLOW", "http://127.0.0.1:8080/")
    monkeypatch.setenv("MURMUR_AIRFLOW_USER", "owner")
    monkeypatch.setenv("MURMUR_AIRFLOW_PASSWORD_FILE", str(tmp_path / "password"))


def test_event_is_sent_for_the_right_asset(configured):
    airflow = Airflow()
    told = announce(EVENT, transport=airflow)
    assert told["event_sent"]
    assert airflow.events == [{"asset_id": 7, "extra": EVENT["extra"]}]
    assert airflow.logins == [{"username": "owner", "password": "secret"}]


def test_passwords_file_of_airflow(configured, tmp_path):
    (tmp_path / "password").write_text('{"owner": "other", "admin": "no"}')
    airflow = Airflow()
    assert announce(EVENT, transport=airflow)["event_sent"]
    assert airflow.logins == [{"username": "owner", "password": "other"}]


@pytest.mark.parametrize(
    ("airflow", "why"),
    [
        (Airflow(assets={"assets": []}), "Airflow knows no asset murmur://films_2"),
        (Airflow(status=403), "Airflow answered 403 to POST /assets/events"),
    ],
)
def test_what_failed_is_said_with_the_command(configured, airflow, why):
    told = announce(EVENT, transport=airflow)
    assert not told["event_sent"]
    assert why in told["announcement"]
    assert told["announcement"].endswith(
        "trigger withdraw_films_2 to announce it: airflow dags trigger withdraw_films_2 --conf "
        """'{"snapshot": "2026-01-01", "reason": "it'"'"'s wrong"}'"""
    )


def test_nothing_is_sent_where_no_airflow_is_named(monkeypatch):
    monkeypatch.delenv("MURMUR_AIRFLOW", raising=False)
    airflow = Airflow()
    told = announce(EVENT, transport=airflow)
    assert "no asset event was sent: Airflow is not configured here; trigger" in told["announcement"]
    assert airflow.events == []


def test_a_password_is_not_sent_in_the_clear(configured, monkeypatch):
    monkeypatch.setenv("MURMUR_AIRFLOW", "http://airflow.example.org")
    airflow = Airflow()
    assert "neither https nor on this machine" in announce(EVENT, transport=airflow)["announcement"]
    assert airflow.logins == []


def test_no_password(configured, monkeypatch):
    monkeypatch.delenv("MURMUR_AIRFLOW_PASSWORD_FILE")
    assert "asks for a password" in announce(EVENT, transport=Airflow())["announcement"]
