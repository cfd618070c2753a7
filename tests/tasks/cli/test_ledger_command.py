"""Test `murmur ledger`: what it shows, that it verifies, and that it makes nothing."""

import json

import pytest

from tasks.cli import main
from tasks.series.erasure import erase
from tasks.series.overview import describe
from tasks.store import Store, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate
from tests.tasks.series.small_series import SmallSeries
from tests.tasks.series.small_series import people as named

CONFIG = f"""
[release]
name = "films"
[source]
format = "synthetic"
[series]
population = "{POPULATION}"
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return Store(tmp_path / "store")


@pytest.fixture
def ledger(tmp_path, store, capsys):
    """Run the command; return the exit code and the JSON object."""
    config = tmp_path / "films.toml"
    config.write_text(CONFIG)

    def run(*arguments: str) -> tuple[int, dict]:
        capsys.readouterr()
        code = main(["ledger", str(config), "--store", str(store.root), *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def series(tmp_path, store):
    """Publish two releases: four people, then two more."""
    for snapshot, people, items in (
        ("2026-01-01", ["ann", "bob", "cid", "dan"], ["x"]),
        ("2026-02-01", ["eve", "fay"], []),
    ):
        publish_candidate(
            make_candidate(tmp_path / snapshot, store, snapshot, people, items=items), store, snapshot
        )


def test_no_ledger(ledger, store):
    assert ledger("--check") == (0, {"status": "empty", "population": POPULATION, "releases": []})
    assert not store.root.exists()


def test_what_it_shows(ledger, store, series):
    write_json(
        store.root / "private/films/2026-02-01/series.json", {"waiting": 4, "eligible": 6, "mode": "sticky"}
    )
    code, answer = ledger()
    assert (code, answer["status"]) == (0, "read")
    shown = ("snapshot", "state", "people", "new_people", "groups", "new", "carried")
    assert [[one[name] for name in shown] for one in answer["releases"]] == [
        ["2026-01-01", "published", 4, 4, 2, 2, 0],
        ["2026-02-01", "published", 6, 2, 3, 1, 2],
    ]
    assert answer["classes"] == {"number": 3, "smallest": 2, "groups_of_pools": 0}
    assert answer["people"] == {"released": 6, "survivors_waiting": 0}
    assert answer["newest"] == {
        "release": "films",
        "snapshot": "2026-02-01",
        "before_erasures": False,
        "waiting": 4,
        "eligible": 6,
    }
    assert (answer["erasures"], answer["budget"], answer["interrupted"]) == (0, [], [])
    assert "problems" not in answer


def test_the_figures_are_those_of_the_newest_snapshot(tmp_path, ledger, store, series):
    """Not those of a backfill, which is published last."""
    backfill = make_candidate(tmp_path / "backfill", store, "2025-12-01", [], items=[])
    publish_candidate(backfill, store, "2025-12-01")
    for snapshot, waiting in (("2025-12-01", 0), ("2026-02-01", 4)):
        write_json(store.root / f"private/films/{snapshot}/series.json", {"waiting": waiting})
    newest = ledger()[1]["newest"]
    assert (newest["snapshot"], newest["waiting"]) == ("2026-02-01", 4)


def test_figures_after_an_erasure_say_that_they_are_older(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    made = SmallSeries(tmp_path)
    made.publish("2026-01-01", named(0, 9))
    write_json(made.private("2026-01-01") / "series.json", {"waiting": 4})
    erase(made.store, POPULATION, "films", made.maker(), ids={named(0, 1)[0]})
    with made.ledger() as opened:
        newest = describe(opened, made.store)["newest"]
    assert newest == {"release": "films", "snapshot": "2026-01-01", "before_erasures": True, "waiting": 4}


def test_check(ledger, store, series):
    code, answer = ledger("--check")
    assert (code, answer["status"], answer["problems"]) == (0, "intact", [])
    (store.root / "published/films/2026-01-01/items.parquet").unlink()
    code, answer = ledger("--check")
    assert (code, answer["status"]) == (1, "wrong")
    assert "films 2026-01-01: items.parquet is not what was published" in answer["problems"]


def test_as_a_table(tmp_path, ledger, store, series, capsys):
    (store.root / "published/films/2026-01-01/items.parquet").unlink()
    assert main(["ledger", str(tmp_path / "films.toml"), "--store", str(store.root), "--check"]) == 1
    shown = capsys.readouterr().out
    for words in ("2026-02-01", "carried", "items.parquet is not what was published"):
        assert words in shown
