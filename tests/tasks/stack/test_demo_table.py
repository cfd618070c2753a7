"""Test the table with which the demo ends, on a small series."""

import datetime
import io

import pytest
from rich.console import Console

from tasks.config import parse
from tasks.errors import MurmurError
from tasks.series.withdrawal import withdraw
from tasks.stack import __main__ as stack_main
from tasks.stack import demo
from tasks.stack.demo import _done, require_unchanged, series_table
from tasks.store import Store, read_json, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate


def publish(store, tmp_path, snapshot, people, waiting):
    made = make_candidate(tmp_path / snapshot, store, snapshot, people, items=["x"] if waiting else [])
    publish_candidate(made, store, snapshot)
    write_json(store.root / "private/films" / snapshot / "series.json", {"waiting": waiting})


def test_table(tmp_path, monkeypatch):
    """A row for each release: people, groups and new groups add up; the verdict counts gating checks alone."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    store = Store(tmp_path / "store")
    publish(store, tmp_path, "2026-01-01", ["ann", "bob", "cid", "dan"], 1234)
    publish(store, tmp_path, "2026-02-01", ["eve", "fay"], 0)
    manifest = store.root / "published/films/2026-02-01/manifest.json"
    checks = [
        {"severity": "gate", "applicable": True, "passed": True},
        {"severity": "gate", "applicable": False, "passed": True},
        {"severity": "advisory", "applicable": True, "passed": False},
    ]
    write_json(manifest, {**read_json(manifest), "checks": checks})
    withdraw(store, POPULATION, "films", "2026-01-01", "an error")
    out = io.StringIO()
    Console(file=out, width=80).print(series_table(store, "films", POPULATION))
    rows = [line.split() for line in out.getvalue().splitlines() if line.strip().startswith("2026")]
    assert rows == [
        ["2026-01-01", "4", "2", "2", "1,234", "withdrawn"],
        ["2026-02-01", "6", "3", "1", "0", "passed", "1", "of", "1", "checks"],
    ]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (3, "nothing was to be done: all 3 snapshots were published before"),
        (1, "published after 95 s (1 of 3 snapshots were published before)"),
        (0, "published after 95 s"),
    ],
)
def test_the_demo_says_what_it_did(before, said):
    assert _done(before, 3, 95.0).startswith(said)


def test_a_changed_file_is_found_where_nothing_is_to_be_done(tmp_path, monkeypatch):
    """The answer "nothing was to be done" is given only where ledger and files agree."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    monkeypatch.setattr(demo, "is_already_published", lambda config, day, store: day.month == 1)
    store, day = Store(tmp_path / "store"), datetime.date(2026, 1, 1)
    publish(store, tmp_path, "2026-01-01", ["ann", "bob", "cid", "dan"], 0)
    config = parse(
        {
            "release": {"name": "films"},
            "source": {"format": "synthetic"},
            "series": {"population": POPULATION},
        }
    )
    require_unchanged(config, [day], store)
    with pytest.raises(MurmurError, match="the ledger does not have it"):
        require_unchanged(config, [day, datetime.date(2026, 2, 1)], store)
    groups = store.root / "published/films/2026-01-01/groups.parquet"
    groups.chmod(0o644)
    groups.write_bytes(groups.read_bytes() + b"x")
    with pytest.raises(MurmurError, match="not as they were published"):
        require_unchanged(config, [day], store)


def test_the_stack_is_not_started_where_nothing_is_to_be_done(tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    moments = demo.latest_scheduled_times(datetime.datetime.now(datetime.UTC), demo.RELEASES)
    for moment in moments:
        place = Store().published(demo.DEMO, moment.date())
        place.mkdir(parents=True)
        write_json(place / "manifest.json", {})
    checked = []
    monkeypatch.setattr(demo, "require_unchanged", lambda config, days, store: checked.extend(days))
    monkeypatch.setattr(demo, "series_table", lambda *arguments: "")
    monkeypatch.setattr(demo.Stack, "start", lambda stack: pytest.fail("the stack was started"))
    out = io.StringIO()
    demo.publish(Console(file=out))
    assert checked == [moment.date() for moment in moments]
    assert out.getvalue().startswith("nothing was to be done")


@pytest.mark.parametrize(("command", "number", "code"), [("ui", 2, 0), ("ui", 15, 143), ("demo", 2, 130)])
def test_ctrl_c_is_how_ui_ends(command, number, code, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt(number)

    monkeypatch.setattr(stack_main, "serve", interrupted)
    monkeypatch.setattr(stack_main.demo, "publish", interrupted)
    monkeypatch.setattr(stack_main.signal, "signal", lambda *arguments: None)
    assert stack_main.main([command]) == code
    assert "no process is left running" in capsys.readouterr().out
