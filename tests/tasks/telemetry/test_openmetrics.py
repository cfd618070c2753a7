"""Test the figures for monitoring, read back by the parser of prometheus_client."""

import datetime

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tasks.cli import main
from tasks.config import Alerts, parse
from tasks.store import STEP_TIMES, Store, read_json, write_json
from tasks.telemetry.openmetrics import metrics
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

NOW = datetime.datetime(2026, 3, 10, tzinfo=datetime.UTC)
CHECKS = [
    {"name": "k-anonymity", "severity": "gate", "applicable": True, "passed": True, "observed": 5.0, "ci_high": None,
     "threshold": 5.0},
    {"name": "scoreboard-rh", "severity": "gate", "applicable": True, "passed": False, "observed": 0.3,
     "ci_high": 0.35, "threshold": 0.2},
    {"name": "rare-items", "severity": "gate", "applicable": False, "passed": True, "observed": None, "ci_high": None,
     "threshold": 0.1},
]  # fmt: skip


def config(**release):
    tables = {
        "release": {
            "name": "films",
            "schedule": "0 3 1 * *",
            "start_date": datetime.date(2026, 1, 1),
            **release,
        },
        "source": {"format": "synthetic"},
        "privacy": {"k": 2},
        "series": {"population": POPULATION, "min_cohort": 4},
    }
    return parse(tables)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """January published, February refused, March missing."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    store = Store(tmp_path / "store")
    made = make_candidate(
        tmp_path / "made", store, "2026-01-01", ["u1", "u2", "u3", "u4"], items=["i0", "i1"]
    )
    publish_candidate(made, store, "2026-01-01")
    own = store.root / "private" / "films" / "2026-02-01"
    (own / "work" / "padding").mkdir(parents=True)
    verdict = {"passed": False, "failed": ["scoreboard-rh"], "attempts": 3, "checks": CHECKS}
    write_json(own / "verdict.json", verdict)
    write_json(own / "work" / "padding" / STEP_TIMES, {"step": "padding", "cpu_seconds": 1.25})
    return store


def read(text):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures(store):
    found = read(metrics([config()], store, NOW))
    assert found["murmur_snapshots", "films", "published"] == 1
    assert found["murmur_snapshots", "films", "refused"] == 1
    assert found["murmur_snapshots", "films", "missing"] == 1
    assert found["murmur_snapshot_age_seconds", "films"] == 68 * 86400
    assert found["murmur_verdict_passed", "films"] == 0
    assert found["murmur_verdict_attempts", "films"] == 3
    assert found["murmur_check_upper_bound", "films", "gate", "scoreboard-rh"] == 0.35
    assert found["murmur_check_threshold", "films", "gate", "scoreboard-rh"] == 0.2
    assert not any("rare-items" in key for key in found)  # what does not apply is no figure
    assert found["murmur_step_cpu_seconds", "films", "padding"] == 1.25
    assert found["murmur_smallest_class", POPULATION] == 2
    assert found["murmur_people", POPULATION, "released"] == 4
    assert not any("u1" in part for key in found for part in key)


def test_age_counts_from_the_manifest(store):
    path = store.root / "published" / "films" / "2026-01-01" / "manifest.json"
    made = datetime.datetime.fromisoformat(read_json(path)["created_at"])
    found = read(metrics([config()], store, made + datetime.timedelta(hours=1)))
    assert found["murmur_release_age_seconds", "films"] == 3600


def test_nothing_was_ever_made(tmp_path):
    found = read(metrics([config()], Store(tmp_path / "empty"), NOW))
    assert found["murmur_snapshots", "films", "missing"] == 3
    assert ("murmur_verdict_passed", "films") not in found


def test_command_writes_the_file_at_once(store, tmp_path, capsys):
    release = tmp_path / "films.toml"
    release.write_text(
        f'[release]\nname = "films"\n[source]\nformat = "synthetic"\n[series]\npopulation = "{POPULATION}"\n'
    )
    out = tmp_path / "films.prom"
    assert main(["metrics", str(release), "--store", str(store.root), "--out", str(out)]) == 0
    assert read(out.read_text())["murmur_snapshots", "films", "published"] == 1
    assert out.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".films.prom*"))
    capsys.readouterr()
    assert main(["metrics", str(release), "--store", str(store.root)]) == 0
    assert capsys.readouterr().out.endswith("# EOF\n")


def test_time_until_the_source_deletes_what_is_missing(store):
    """March is missing and kept for 30 days; what is there, or can never be made again, does not count."""
    watched = config().model_copy(update={"alerts": Alerts(source_days=30)})
    name = ("murmur_source_seconds_left", "films")
    assert read(metrics([watched], store, NOW))[name] == 21 * 86400
    assert name not in read(metrics([config()], store, NOW))
    gone = datetime.datetime(2026, 3, 31, tzinfo=datetime.UTC)
    assert name not in read(metrics([watched], store, gone))
