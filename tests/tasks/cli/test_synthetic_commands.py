"""Test commands on releases of synthetic rows: what they write, and in one sentence where they do not apply."""

import json

import pytest

from checks.result import NO_RECORDS
from tasks.cli import main
from tasks.config import parse
from tasks.errors import UsageError
from tasks.studies.compare.entries import parse_entries
from tests.tasks.series.made_synthetic import POPULATION, SyntheticSeries

TABLES = {
    "release": {"name": "rows"},
    "source": {"format": "synthetic"},
    "privacy": {"method": "dp-synthetic", "budget": {"epsilon": 3.0, "per": "year", "releases": 3}},
    "series": {"population": POPULATION},
}


@pytest.fixture
def series(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return SyntheticSeries(tmp_path)


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "rows.toml"
    file.write_text(
        f'[release]\nname = "rows"\n[source]\nformat = "synthetic"\n[series]\npopulation = "{POPULATION}"\n'
        '[privacy]\nmethod = "dp-synthetic"\n[privacy.budget]\nepsilon = 3.0\nper = "year"\nreleases = 3\n'
    )
    return str(file)


def test_rows_are_written_under_made_up_names(series, tmp_path):
    """Four rows of two items each; the codes of made_synthetic.py are steps of 0.1 from 1."""
    public = series.publish("2026-01-01")
    assert main(["expand", str(public), "--to", "csv", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        *("user,item,rating", "row-0000001,i0,2.0", "row-0000001,i1,5.0", "row-0000002,i1,3.0"),
        *("row-0000002,i2,5.0", "row-0000003,i0,4.0", "row-0000003,i2,5.0"),
        *("row-0000004,i0,5.0", "row-0000004,i1,5.0"),
    ]


def test_the_ledger_shows_classes_and_budget_together(series, config, capsys):
    series.publish("2026-01-01")
    assert main(["ledger", config, "--store", str(series.store.root), "--check", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["classes"]["number"]) == ("intact", 0)
    assert [one["period"] for one in answer["spent"]["periods"]] == ["2026"]
    assert main(["ledger", config, "--store", str(series.store.root)]) == 0
    shown = capsys.readouterr().out
    for words in ("privacy budget", "in all", "withdrawn ones included"):
        assert words in shown


def test_plan_and_attacks_say_why_they_do_not_apply(series, config, capsys):
    public = series.publish("2026-01-01")
    assert main(["plan", config, "--releases", "2", "--store", str(series.store.root)]) == 2
    assert "carries nobody over" in capsys.readouterr().err
    private = str(series.private("2026-01-01"))
    source = ["--source", str(series.source), "--format", "csv", "--scale", "1,5"]
    command = ["attack", "scoring", "--release", str(public), "--private", private, *source]
    assert main(command) == 2
    assert NO_RECORDS.rstrip(".") in capsys.readouterr().err


def test_check_shows_the_share_of_a_release(config, capsys):
    assert main(["check", config, "--json"]) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["rows"].startswith("user-level differential privacy")
    assert 1.0 < promise["epsilon"] < 3.0


def test_other_methods_are_compared_without_the_budget():
    """A budget belongs to synthetic rows alone; an entry may set another epsilon."""
    entries = parse_entries("predictive-padded,dp-synthetic,dp-synthetic:epsilon=1:releases=1", parse(TABLES))
    budgets = [entry.config.privacy.budget for entry in entries]
    assert budgets[0] is None
    assert [(one.epsilon, one.releases) for one in budgets[1:] if one] == [(3.0, 3), (1.0, 1)]
    grouped = {name: table for name, table in TABLES.items() if name != "privacy"}
    [alone] = parse_entries("dp-synthetic:epsilon=2", parse(grouped))
    assert alone.config.privacy.budget is not None
    assert alone.settings == {"epsilon": 2}
    with pytest.raises(UsageError, match="needs a budget"):
        parse_entries("dp-synthetic", parse(grouped))
    with pytest.raises(UsageError, match="no setting 'epsilon'"):
        parse_entries("predictive-padded:epsilon=2", parse(grouped))
