"""Test docs/frontier.md and its plot: every measured setting has a line and a point."""

import pytest

from benchmarks import frontier
from checks.evidence.shadow_ranking import SOURCES


def ranking(own, group):
    values = dict(zip(SOURCES, (0.26, own, group, 0.1), strict=True))
    found = {"people": 100}
    for name, value in values.items():
        for end, by in (("", 0), ("_low", -0.01), ("_high", 0.01)):
            found[f"{name}_ndcg{end}"] = None if value is None else value + by
        found[f"{name}_recall"] = value
    return found | {"parts": {part: dict(found) for part in ("head", "tail", "light", "heavy")}}


@pytest.fixture
def figures():
    rows = [
        {
            "series": setting.series,
            "setting": setting.name,
            "amount": setting.amount,
            "rmse": None if setting.series == "dp-synthetic" else 0.87,
            "rmse_model": None if setting.series == "dp-synthetic" else 0.85,
            "ranking": ranking(0.13, None if setting.series == "dp-synthetic" else 0.05),
        }
        for setting in frontier.settings()
    ]
    machine = {"date": "2026-01-01", "commit": "abc"}
    return {"machine": machine, "dataset": "movielens-1m", "rows": rows, "unknown": ["k = 9"]}


def test_every_setting_has_a_line(figures):
    text = frontier.page(figures)
    assert "| k = 5 | 0.130 (0.120–0.140) | 0.050 | 0.260 | 0.100 | 50% | 0.130 |" in text
    assert "| k = 20, support | 0.130" in text
    assert "| epsilon = 3 | 0.130 (0.120–0.140) | – |" in text
    assert "left out: k = 9." in text
    assert "None" not in text
    assert "Not measured yet" in frontier.page(None)


def test_the_plot_is_the_same_every_time(figures, tmp_path):
    for name in ("one.svg", "other.svg"):
        frontier.draw(figures, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "other.svg").read_text()
    for words in ("support, own history", "dp-synthetic, own history", "popularity", "not measured"):
        assert words in drawn


def test_the_plot_of_a_version_without_all_methods(figures, tmp_path):
    figures["rows"] = [row for row in figures["rows"] if row["series"] == "padded"]
    frontier.draw(figures, tmp_path / "plot.svg")
    assert "support" not in (tmp_path / "plot.svg").read_text()


def test_settings_that_are_not_known_are_left_out(tmp_path, monkeypatch):
    """A key that this version refuses is named; the other settings are measured on ratings that are read once."""
    some = [frontier.settings()[0], frontier.Setting("padded", "k = x", 1, {"privacy": {"magic": 1}})]
    monkeypatch.setattr(frontier, "settings", lambda: some)
    monkeypatch.setattr(frontier, "detect_format", lambda place: "movielens-1m")
    monkeypatch.setattr(frontier.pipeline, "execute", lambda step, run: {"path": str(tmp_path), "step": step})
    monkeypatch.setattr(
        frontier, "_measure", lambda setting, config, run: {"cpu_seconds": 1.0, "k": config.privacy.k}
    )
    found = frontier.measure(tmp_path, 0, some, "abc")
    assert found["unknown"] == ["k = x"]
    assert [(row["k"], row["commit"]) for row in found["rows"]] == [(5, "abc")]


def test_series_that_are_measured_again_replace_their_rows_alone(figures):
    """Rows of other series stay, with the commit at which they were measured, in the order of the page."""
    new = {"series": "support", "setting": "k = 20, support", "amount": 20, "commit": "def"}
    again = frontier.merged(
        {**figures, "unknown": ["epsilon = 1"]}, {"rows": [new], "unknown": []}, ["support"]
    )
    support = [row for row in again["rows"] if row["series"] == "support"]
    assert support == [new]
    assert {row["commit"] for row in again["rows"] if row["series"] == "padded"} == {"abc"}
    assert again["unknown"] == ["epsilon = 1"]
    names = [row["setting"] for row in again["rows"]]
    assert names.index("k = 50") < names.index("k = 20, support") < names.index("epsilon = 3")
    assert frontier.merged(None, {"rows": [new], "unknown": []}, ["support"])["rows"] == [new]
