"""Test docs/compare.md: one line per release, the original last, refusals with their reasons."""

import pytest

from benchmarks import compare
from tasks.config import parse
from tasks.methods import registered
from tasks.recommenders import compared
from tasks.studies.compare.entries import parse_entries

GOOD = {name: {"rmse": 0.9, "mae": 0.7, "ndcg_at_10": 0.25, "recall_at_10": 0.3} for name in compared()}
UTILITY = {**GOOD["als"], "kendall_tau": 0.6, "kendall_tau_rmse": None, "target_deviation_rmse": 0.95}


def row(method, status="passed", **more):
    found = {"method": method, "settings": {}, "k": 5, "status": status, "failed": [], "why": None}
    found |= {"risk": {"recovery": 0.4, "scoring": 0.01}, "worst_risk": 0.01, "worst_attack": "scoring"}
    found |= {
        "utility": UTILITY,
        "recommenders": GOOD,
        "counts": {},
        "seconds": {"padding": 2.0, "validate": 9.0},
    }
    return found | more


@pytest.fixture
def figures():
    original = {
        key: row("x")[key] for key in ("risk", "worst_risk", "worst_attack", "utility", "recommenders")
    }
    rows = [
        row("predictive-padded", settings={"k": 20}),
        row("perturbation", "refused", failed=["scoring", "recovery"], settings={"amount": 0.5}),
        row("predictive-simple", "refused", why="cannot be reached", risk={}, worst_risk=None, worst_attack=None,
            utility={}, recommenders={}, seconds={}),
        row("microaggregation", "failed", why="too wide", risk={}, worst_risk=None, worst_attack=None,
            utility={}, recommenders={}, seconds={}),
    ]  # fmt: skip
    machine = {"date": "2026-01-01", "commit": "abc"}
    return {"machine": machine, "dataset": "movielens-1m", "rows": rows, "original": original}


def test_every_release_has_a_line_and_a_reason(figures):
    text = compare.page(figures)
    assert "| 1 | predictive-padded (k 20) | passed | 0.010 | scoring | 0.900 | 0.700 | 0.250 |" in text
    assert "|  | original, names removed |  | 0.010 |" in text
    assert "- perturbation (amount 0.5): scoring, recovery" in text
    assert "- predictive-simple: cannot be reached" in text
    assert "| recovery | 0.400 | 0.400 | – | – | 0.400 |" in text
    assert "| predictive-padded (k 20) | 2 | 9 | 0 |" in text
    assert "make compare" in text
    assert "- microaggregation: too wide" in text
    assert "None" not in text


def test_the_page_is_written_from_stored_figures(figures, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "DOCS", tmp_path)
    monkeypatch.setattr(compare.results, "DIRECTORY", tmp_path)
    monkeypatch.setattr(compare.results.read, "__defaults__", (tmp_path,))
    assert compare.main(["--page"]) == 0
    assert "Not measured yet: `make compare`" in (tmp_path / "compare.md").read_text()
    assert not (tmp_path / "compare.svg").exists()
    compare.results.write(tmp_path / "compare.json", figures, {"commit": "abc", "date": "2026-01-01"})
    assert compare.main(["--page"]) == 0
    assert "(compare.svg)" in (tmp_path / "compare.md").read_text()
    assert "predictive-padded (k 20): passed" in (tmp_path / "compare.svg").read_text()


def test_the_pages_entries_are_methods_of_this_version():
    source = {"format": "movielens-1m", "path": "-"}
    entries = parse_entries(",".join(compare.ENTRIES), parse({"release": {"name": "x"}, "source": source}))
    # What synthetic rows cost is in docs/frontier.md: RMSE, which orders this page, is not measured for them.
    about_people = {name for name, method in registered().items() if method.unit != "synthetic"}
    assert {entry.method for entry in entries} == about_people


def test_ranking_is_shown_where_it_was_measured(figures):
    assert "## Ranking" not in compare.page(figures)
    found = {
        "own_history_ndcg": 0.21,
        "group_history_ndcg": None,
        "popularity_ndcg": 0.1,
        "original_ndcg": 0.26,
    }
    figures["rows"][0]["utility"] = UTILITY | {"ranking": found}
    assert "| predictive-padded (k 20) | 0.210 | – | 0.100 | 0.260 |" in compare.page(figures)
