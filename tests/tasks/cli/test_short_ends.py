"""Test the few lines with which commands end: at most ten, the verdict first, figures in words and units."""

import re

import pytest

from tasks.cli import _short_ends as ends
from tasks.cli import _words as words

NAMING = {"nearest-record", "scoring"}


def check(name, *, passed=True, observed=0.1, high=0.12, limit=0.2, severity="gate", **more):
    line = {"name": name, "passed": passed, "observed": observed, "ci_low": 0.05, "ci_high": high}
    return {**line, "threshold": limit, "severity": severity, "applicable": True, "detail": "Why.", **more}


def answer(status="published", checks=(), **more):
    given = {"status": status, "checks": list(checks), "candidate": None, "refused_cohort": None, "why": None}
    places = {"published": "/s/published/x/2026-01-01", "report": "/s/published/x/2026-01-01/report.html"}
    utility = {"target_deviation_rmse": 0.9731, "original_rmse": 0.9692, "random_group_rmse": 1.0751}
    cost = {"seconds": {"ingest": 10.0, "shadow": 99.0, "validate": 20.0}, "peak_rss_bytes": 1_002_223_616}
    return {**given, **places, "utility": utility, **cost, **more}


def plain(lines):
    """Return the lines as they are shown."""
    assert len(lines) <= ends.LINES
    shown = [re.sub(r"\[/?[a-z ]*\]", "", line) for line in lines]
    assert all(len(line) <= ends.WIDTH for line in shown if "/s/" not in line)
    return "\n".join(shown)


def test_a_published_release_says_risk_accuracy_cost_and_what_to_do_next():
    checks = [
        check("nearest-record", high=0.131),
        check("scoring", high=0.02, applicable=False),
        check("recovery", high=0.4),
        check("unprotected-attributes", passed=False, severity="advisory"),
    ]
    said = plain(ends.end_of_run(answer(checks=checks), "films 2026-01-01", NAMING))
    assert said.startswith("Published films 2026-01-01.\n  checks   2 checks passed; 1 warning: unprotected")
    assert "attacks name at most 13.1 % of people (nearest-record; allowed 20 %)" in said
    assert "off by 0.973 (0.969 without groups, 1.075 in random ones)" in said
    assert "30 s of CPU time, 1 GB" in said
    assert "murmur open /s/published/x/2026-01-01" in said
    assert "--verbose" in said


def test_a_refusal_names_what_failed_what_is_allowed_and_the_remedy():
    checks = [
        check("recovery", passed=False, observed=0.61, high=0.7, limit=0.5),
        check("cohorts", passed=False, observed=30.0, high=None, limit=50.0),
        check("sybil", passed=False, observed=None, high=None, void=True),
        check("series", passed=False, observed=0.0, high=None, limit=2.0),
        check("scoring"),
    ]
    given = answer("refused", checks, why="the gate refused this release")
    said = plain(ends.end_of_run(given, "films 2026-01-01", NAMING, "raise privacy.k"))
    assert said.startswith("Refused: films 2026-01-01 is not published.")
    assert "recovery: 61 % (up to 70 %), allowed 50 %" in said
    assert "cohorts: 30, at least 50 needed" in said
    assert "sybil: Why." in said
    assert "and 1 further check" in said
    assert "to do    raise privacy.k" in said


def test_a_step_that_refuses_says_why():
    given = answer("refused", why="nobody can be released yet: a cohort needs 50 people " * 9, report=None)
    said = plain(ends.end_of_run(given, "films 2026-01-01", NAMING, "wait for more people " * 20))
    assert "nobody can be released yet" in said
    assert said.count("…") == 2  # neither is longer than its lines


def test_a_candidate_that_waits_is_not_called_published():
    said = plain(
        ends.end_of_run(answer("refused", [check("scoring")], candidate="/s/c"), "films 2026-01-01", NAMING)
    )
    assert "waits for approval" in said
    assert "murmur approve /s/c" in said
    assert "Published" not in said


def test_a_repeated_run_says_that_nothing_was_done():
    said = plain(ends.end_of_run(answer(already_published=True), "films 2026-01-01", set()))
    assert said.startswith("films 2026-01-01 is published already; nothing was done.")


def test_the_judgement_of_a_release():
    passed = {"status": "passed", "checks": [check("scoring")]}
    assert plain(ends.end_of_judgement(passed, "x 1", NAMING)).startswith("Passed: x 1.")
    refused = {"status": "refused", "checks": [check("scoring", passed=False)]}
    assert "murmur withdraw" in plain(ends.end_of_judgement(refused, "x 1", NAMING))


def found(knowledge, risk, first=None):
    low_high = {"ci_low": risk, "ci_high": risk, "baseline": 0.0, "n": 9}
    return {"knowledge": knowledge, "risk": risk, "top": {"1": first}, **low_high}


@pytest.mark.parametrize(("k", "next_line"), [(None, "murmur init"), (5, "20 %, which is one in k = 5")])
def test_an_attack_says_how_many_people_it_names(k, next_line):
    results = [found("4 random, exact", 0.9451, 0.9), found("8 rare, some wrong, days", 0.99, 0.9)]
    given = {"attack": "scoring", "results": results, "void": False, "detail": ""}
    said = plain(ends.end_of_attack(given, k))
    data = "these data" if k is None else "this release"
    assert said.startswith(f"Four known ratings identify 94.5 % of the people in {data}.")
    worst = "99 %, for who knows 8 ratings of rare items, a quarter of them wrong and their days"
    assert worst in " ".join(said.split())
    assert next_line in said


def test_an_attack_that_names_nobody_says_its_first_sentence():
    given = {"attack": "sybil", "results": [found("a", 0.5)], "void": False}
    said = plain(ends.end_of_attack({**given, "detail": "The share is 0.5 of 3.7. More follows."}, None))
    assert "The share is 0.5 of 3.7." in said
    assert "More follows" not in said
    void = plain(ends.end_of_attack({**given, "detail": "Void: no control. More.", "void": True}, None))
    assert "the figures show nothing" in void


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("memory_bytes", 775_000_000, "780 MB"),
        ("peak_rss_bytes", 1_002_223_616, "1 GB"),
        ("cpu_seconds", 21, "21 s"),
        ("cpu_seconds", 0.004, "under 0.1 s"),
        ("cpu_seconds", 7300, "2 h"),
        ("null_share", 0.9228, "92.3 %"),
        ("baseline", 5.306e-05, "below 0.001"),
        ("risk", 0.123456, "0.123"),
        ("risk", 12_345.6, "12,346"),
        ("users", 12_345, "12,345"),
        ("scale", [1.0, 5.0], "1, 5"),
        ("x", None, "–"),
        ("x", {"rows_read": 3, "whole": True}, "rows read 3, whole yes"),
    ],
)
def test_figures_have_words_and_units(key, value, said):
    assert words.value_of(key, value) == said


def test_nothing_counts_one_trials():
    assert (words.counted(1, "trial"), words.counted(2, "trial")) == ("1 trial", "2 trials")
    assert "values published" in words.name_of("ratings", "counts")
    assert words.name_of("distinct_ratings") == "distinct ratings"
