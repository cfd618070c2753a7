"""Test `murmur plan` on made-up gates: which setting is found, at what cost, and that nothing stays."""

import json

import pytest

from tasks.cli import main
from tasks.studies.plan import trials
from tasks.studies.plan.trials import Trial

FILE = """
[release]
name = "films"
[source]
format = "synthetic"
[source.synthetic]
users = 120
items = 20
[privacy]
k = 5                 # people
"""


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """Run the command with a rule instead of releases and the gate: (values) → (failed, lost)."""
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    monkeypatch.setattr("tasks.cli._kernels.compile_once", lambda: None)
    monkeypatch.setattr(trials.pipeline, "execute", lambda name, run: {"counts": {"users": 120}})
    file = tmp_path / "films.toml"
    file.write_text(FILE)

    def run(rule, *arguments, cpu=10.0, others=False):
        asked = []

        def made(run, ingest, config, values):
            if not values:  # another way to release
                asked.append((config.privacy.method, config.privacy.support))
                return Trial({}, True, (), None, None, None, None, None, cpu, 0.2, None, 0.1)
            failed, lost = rule(*values.values())
            asked.append(tuple(values.values()))
            return Trial(values, not failed, tuple(failed), None, 0.1, "scoring", lost, 0.1, cpu)

        monkeypatch.setattr(trials, "_try", made)
        capsys.readouterr()
        store = ["--snapshot", "2026-01-01", "--store", str(tmp_path / "store")]
        alone = [] if others else ["--settings-only"]
        code = main(["plan", str(file), *store, *alone, *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out), asked

    run.file, run.store = file, tmp_path / "store"
    return run


def test_a_protection_that_costs_nothing_is_kept(plan):
    """The weakest setting passes; what contributors cost is nothing, so the release file's own number stays."""
    code, answer, asked = plan(lambda k, c, step: ([], 0.01 * step + 0.001 * k))
    assert code == 0
    assert asked == [(5, 3, 0.1), (5, 1, 0.05), (5, 3, 0.05)]
    assert answer["cheapest"]["values"]["privacy.min_contributors"] == 3
    assert answer["cheapest"]["values"]["privacy.rating_step"] == 0.05
    assert answer["undecided"] == 0
    assert not list(plan.store.rglob(".plan-*"))  # nothing of the trials stays


def test_that_less_protection_loses_less_is_tried_axis_by_axis(plan):
    """Together two protections lose least where one of them is given up; the weakest setting passes and loses more."""
    code, answer, asked = plan(lambda k, c, step: ([], 0.02 + 0.001 * abs(c - 3) + 0.1 * step))
    assert code == 0
    assert asked[:2] == [(5, 3, 0.1), (5, 1, 0.05)]
    assert answer["cheapest"]["values"] == {
        "privacy.k": 5,
        "privacy.min_contributors": 3,
        "privacy.rating_step": 0.05,
    }


def test_after_a_refusal_stronger_settings_are_tried(plan):
    code, answer, asked = plan(lambda k, c, step: ([] if k >= 10 else ["recovery"], 0.001 * k))
    assert code == 0
    assert asked[0] == (5, 3, 0.1)
    assert answer["cheapest"]["values"]["privacy.k"] == 10
    assert answer["own"] == {"passed": False, "lost": 0.005, "failed": ["recovery"]}


def test_what_no_setting_helps_against_ends_the_search(plan):
    code, answer, asked = plan(lambda k, c, step: (["attribute-inference"], 0.01))
    assert (code, len(asked), answer["cheapest"]) == (3, 1, None)
    assert "attribute-inference refuses whatever" in answer["stopped"]


def test_no_trial_begins_beyond_the_time(plan):
    _, answer, asked = plan(lambda k, c, step: (["recovery"], 0.01), "--minutes", "1", cpu=1e6)
    assert len(asked) == 1
    assert "CPU seconds are used" in answer["stopped"]
    assert answer["undecided"] > 0


def test_the_setting_is_written_and_the_page_too(plan, tmp_path):
    page = tmp_path / "plan.html"
    _, answer, _ = plan(lambda k, c, step: ([], step), "--html", str(page), "--then", "write")
    assert answer["written"] == str(plan.file)
    assert "k = 5                 # people" in plan.file.read_text()
    assert "rating_step = 0.05" in plan.file.read_text()
    assert page.read_text().startswith("<!doctype html>")
    _, answer, asked = plan(lambda k, c, step: ([], step), "--then", "write")
    assert (answer["written"], answer["own_is_cheapest"], asked[0]) == (None, True, (5, 3, 0.05))


def test_other_ways_are_tried_in_the_time_that_is_left_and_none_is_chosen(plan, tmp_path):
    page = tmp_path / "plan.html"
    code, answer, asked = plan(lambda k, c, step: ([], step), "--html", str(page), others=True)
    assert code == 0
    assert answer["cheapest"]["values"]["privacy.k"] == 5
    ways = [one["entry"] for one in answer["others"]]
    assert ways[-3:] == ["dp-synthetic:epsilon=1", "dp-synthetic:epsilon=3", "dp-synthetic:epsilon=10"]
    assert {"predictive-simple", "microaggregation", "predictive-padded:k=20:support=true"} <= set(ways)
    assert "predictive-padded" not in ways  # the release file's own
    assert asked[-1] == ("dp-synthetic", False)
    assert ("predictive-padded", True) in asked
    assert "0.200 / – / 0.100" in page.read_text()
    assert "the choice is yours" in page.read_text()
    assert "Choose on other data" in page.read_text()


def test_other_ways_without_time_are_named(plan):
    _, answer, _ = plan(lambda k, c, step: ([], step), "--minutes", "1", cpu=1e6, others=True)
    assert answer["others"] == []
    assert "dp-synthetic:epsilon=3" in answer["others_left_out"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--html", "/nowhere/x.html"], "no page can be written"), (["--minutes", "0"], "there is no time")],
)
def test_what_cannot_work_is_refused_before_a_trial(plan, arguments, said):
    code, answer, asked = plan(lambda *values: ([], 0.1), *arguments)
    assert (code, asked) == (2, [])
    assert said in answer["error"]["what"]


def test_the_snapshot_is_needed(plan, capsys):
    assert main(["plan", str(plan.file)]) == 2
    assert "--releases N to look ahead" in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_search_on_few_people(tmp_path, monkeypatch, capsys):
    """Real releases and the real gate: one trial, whose figures are the gate's, and a table of 80 columns."""
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    file = tmp_path / "films.toml"
    file.write_text(FILE)
    only = [
        "--vary",
        "privacy.min_contributors=3",
        "--vary",
        "privacy.rating_step=0.1",
        "--vary",
        "privacy.k=5",
        "--settings-only",
    ]
    asked = ["plan", str(file), "--snapshot", "2026-01-01", "--store", str(tmp_path / "store"), *only]
    code = main(asked)
    out = capsys.readouterr().out
    assert code in (0, 3)
    assert max(map(len, out.splitlines())) <= 80
    assert "1 of 1 settings were tried" in " ".join(out.split())
    assert not list((tmp_path / "store").rglob("attempts.json"))  # a trial is no attempt
    assert not (tmp_path / "store" / "published").exists()


def test_settings_of_synthetic_rows_are_not_searched_on_their_own_data(plan):
    method = '[privacy]\nmethod = "dp-synthetic"\n[privacy.budget]\nepsilon = 3.0\n'
    plan.file.write_text(FILE.partition("[privacy]")[0] + method)
    code, answer, asked = plan(lambda k, c, step: ([], step))
    assert (code, asked) == (2, [])
    assert "not searched on the ratings that they are released of" in answer["error"]["what"]
    assert "other data" in answer["error"]["remedy"]
