"""Test what `make ui` prints, without starting anything."""

import io

from rich.console import Console

from tasks.stack import __main__ as program
from tasks.stack.settings import ui_password
from tasks.stack.supervisor import Stack
from tasks.store import Store


class Started(Stack):
    """A stack of which nothing is started, and which the user stops at once."""

    def start(self):
        pass

    def stop(self):
        pass

    def check(self):
        raise KeyboardInterrupt


def test_page_and_login_are_named(tmp_path, monkeypatch):
    """The first lines name the page to open and an account with a random password."""
    (tmp_path / "state" / "airflow").mkdir(parents=True)
    stack = Started(tmp_path / "state", store=tmp_path / "store", port=8099, workers=1)
    out = io.StringIO()
    monkeypatch.setattr(program, "Stack", lambda port: stack)
    monkeypatch.setattr(program, "console", Console(file=out, width=200))
    assert program.main(["ui"]) == 0
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["open", "http://127.0.0.1:8099/plugin/releases", "(Ctrl-C", "stops", "everything)"] in lines
    password = ui_password(stack.state)
    assert len(password) >= 24
    assert ["sign", "in", "admin,", "password", password] in [line[:5] for line in lines]
    assert ["store", str(Store(tmp_path / "store").root)] in lines


def test_plugin_is_found(tmp_path, monkeypatch):
    """Airflow finds the pages beside the DAG files."""
    (tmp_path / "state" / "airflow").mkdir(parents=True)
    (tmp_path / "state" / "postgres").symlink_to(tmp_path)
    stack = Stack(tmp_path / "state", store=tmp_path / "store", dags=tmp_path / "dags", workers=1)
    assert stack.environment["AIRFLOW__CORE__PLUGINS_FOLDER"] == str(tmp_path / "dags" / "plugins")
