"""Great Expectations: passes good ratings, and fails on every planted violation, naming the expectation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import expectations
from checks.expectations import validate_ratings, validate_verdict
from checks.result import CheckResult, Verdict
from tasks.config.gate import check_names
from tasks.errors import UsageError

ROOT = Path(__file__).parents[1]
SETTINGS = {"items": 3, "scale": (1.0, 5.0), "minimum_users": 3}


def arrays():
    """Four users, three items, seven ratings."""
    indptr = np.array([0, 2, 4, 5, 7], np.int64)
    indices = np.array([0, 1, 1, 2, 0, 0, 2], np.int32)
    values = np.array([1, 2, 3, 4, 5, 1.5, 2], np.float32)
    return indptr, indices, values


def test_good_ratings_pass():
    summary = validate_ratings(*arrays(), **SETTINGS)
    assert summary.pop("expectations") > 15
    assert summary == {"ratings": 7, "ratings_in_frame": 7, "users": 4, "items": 3}


def _with(position, value, *, array):
    changed = list(arrays())
    changed[array] = changed[array].copy()
    changed[array][position] = value
    return changed


@pytest.mark.parametrize(
    ("planted", "settings", "named"),
    [
        (_with(3, np.nan, array=2), {}, r"expect_column_values_to_not_be_null\(ratings: rating\)"),
        (_with(3, np.nan, array=2), {}, r"expect_column_values_to_be_between\(totals: not_a_number\)"),
        (_with(3, 5.5, array=2), {}, r"expect_column_values_to_be_between\(ratings: rating\)"),
        (_with(3, np.inf, array=2), {}, r"expect_column_values_to_be_between\(totals: off_scale\)"),
        (_with(1, 0, array=1), {}, r"expect_compound_columns_to_be_unique\(ratings: user, item\)"),
        (_with(1, 0, array=1), {}, r"expect_column_values_to_be_between\(totals: duplicates\)"),
        (_with(1, 7, array=1), {}, r"expect_column_values_to_be_between\(ratings: item\)"),
        (_with(2, 2, array=0), {}, r"expect_column_values_to_be_between\(totals: users_without_ratings\)"),
        (_with(2, 2, array=0), {}, r"expect_column_unique_value_count_to_be_between\(ratings: user\)"),
        (arrays(), {"minimum_users": 5}, r"expect_column_values_to_be_between\(totals: users\)"),
        (arrays(), {"minimum_items": 4}, r"expect_column_values_to_be_between\(totals: items\)"),
        (arrays(), {"items": 4}, r"expect_column_values_to_be_between\(totals: items\)"),
    ],
)
def test_planted_violations_fail(planted, settings, named):
    with pytest.raises(UsageError, match=named):
        validate_ratings(*planted, **{**SETTINGS, **settings})


def test_wrong_types_fail():
    indptr, indices, values = arrays()
    with pytest.raises(UsageError, match=r"expect_column_values_to_be_of_type\(ratings: rating\)"):
        validate_ratings(indptr, indices, values.astype(np.float64), **SETTINGS)


def test_no_ratings_at_all_fail():
    nothing = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    with pytest.raises(UsageError, match=r"expect_table_row_count_to_be_between\(ratings: rows\)"):
        validate_ratings(*nothing, items=0, scale=(1.0, 5.0), minimum_users=2)


def test_above_the_limit_whole_users_are_sampled_and_totals_stay_exact(monkeypatch):
    monkeypatch.setattr(expectations, "WHOLE_FRAME", 4)
    monkeypatch.setattr(expectations, "BLOCK_USERS", 3)
    assert validate_ratings(*arrays(), **SETTINGS)["ratings_in_frame"] == 3  # users 0 and 2
    with pytest.raises(UsageError, match="totals: off_scale") as caught:
        validate_ratings(*_with(3, 9, array=2), **SETTINGS)  # user 1 is not in the sample
    assert "ratings: rating" not in caught.value.what


ROW = st.lists(st.tuples(st.integers(-1, 4), st.sampled_from([1.0, 3.0, 5.5, np.nan, np.inf])), max_size=5)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=6), block=st.integers(1, 4), in_order=st.booleans())
def test_totals_against_counting_one_by_one(rows, block, in_order):
    rows = [sorted(row) for row in rows] if in_order else rows
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([item for row in rows for item, _ in row], np.int32)
    values = np.array([value for row in rows for _, value in row], np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expectations, "BLOCK_USERS", block)
        (found,) = expectations._totals(indptr, indices, values, 3, (1.0, 5.0)).to_dict("records")
    assert found == {
        "users": len(rows),
        "items": len(set(indices.tolist())),
        "ratings": len(values),
        "not_a_number": sum(np.isnan(value) for value in values),
        "off_scale": sum(value < 1 or value > 5 for value in values),
        "duplicates": sum(len(row) - len({item for item, _ in row}) for row in rows),
        "users_without_ratings": sum(not row for row in rows),
    }


ALONE = """
import logging, socket, sys
logging.basicConfig(level=logging.INFO)  # as an Airflow task has it
def refuse(*args, **kwargs):
    raise SystemExit("network")
socket.socket.connect = socket.getaddrinfo = refuse
import numpy as np
from checks.expectations import validate_ratings
assert "great_expectations" not in sys.modules
validate_ratings(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([1, 2], np.float32), items=2,
                 scale=(1.0, 5.0), minimum_users=2)
assert "great_expectations" in sys.modules
"""


def test_no_network_no_files_no_output(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", ALONE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def line(name, passed=True, severity="gate", observed=0.1, **more):
    """A line of checks.json."""
    plain = {"threshold": 0.2, "ci_low": 0.05, "ci_high": 0.15, "n": 7, "detail": "0.1 of 0.2"}
    return {"name": name, "passed": passed, "severity": severity, "observed": observed, **plain, **more}


def outcomes(result):
    """Success by expectation, with the check it is about."""
    configs = [(one["expectation_config"], one["success"]) for one in result["results"]]
    return {
        config["type"] + (f"({config['kwargs']['check']})" if "check" in config["kwargs"] else ""): success
        for config, success in configs
    }


def test_a_verdict_that_passed_is_a_success_and_shows_every_figure():
    result = validate_verdict([line("a"), line("b", severity="advisory", passed=False)], ["a", "b"])
    assert result["success"]
    assert outcomes(result) == {
        "expect_every_check_to_have_run": True,
        "expect_gating_checks_to_pass": True,
        "expect_check_to_pass(a)": True,
        "expect_advisory_check_to_answer(b)": True,
    }
    shown = result["results"][-1]["result"]
    assert shown["observed_value"] == 0.1
    assert shown["details"]["passed"] is False
    assert (shown["details"]["threshold"], shown["details"]["ci_high"], shown["details"]["n"]) == (
        0.2,
        0.15,
        7,
    )


@pytest.mark.parametrize(
    ("checks", "names", "failing", "details"),
    [
        ([line("a"), line("b", False)], "ab", "expect_check_to_pass(b)", {"detail": "0.1 of 0.2"}),
        ([line("a"), line("b", False)], "ab", "expect_gating_checks_to_pass", {"failed": ["b"]}),
        ([line("a")], "ab", "expect_every_check_to_have_run", {"missing": ["b"], "repeated": []}),
        ([line("a"), line("a")], "a", "expect_every_check_to_have_run", {"missing": [], "repeated": ["a"]}),
        ([line("a"), line("a", False)], "a", "expect_check_to_pass(a)", {"passed": False}),
        ([line("a", severity="advisory")], "a", "expect_gating_checks_to_pass", {"gating": 0, "failed": []}),
        (
            [line("a"), line("b", None, "advisory")],
            "ab",
            "expect_advisory_check_to_answer(b)",
            {"passed": None},
        ),
        ([line("a", "false")], "a", "expect_check_to_pass(a)", {"passed": "false"}),
        ([], "", "expect_gating_checks_to_pass", {"gating": 0}),
    ],
)
def test_planted_verdicts_fail(checks, names, failing, details):
    result = validate_verdict(checks, names)
    assert not result["success"]
    assert outcomes(result)[failing] is False
    (found,) = (
        one
        for one in result["results"]
        if not one["success"] and details.items() <= one["result"]["details"].items()
    )
    assert found["expectation_config"]["type"] == failing.partition("(")[0]


def test_by_default_every_check_there_is_must_have_run():
    every = [line(name) for name in check_names()]
    assert validate_verdict(every)["success"]
    left_out = validate_verdict(every[1:])
    assert not left_out["success"]
    assert left_out["results"][0]["result"]["details"]["missing"] == [every[0]["name"]]


def test_the_same_verdict_gives_the_same_bytes_without_paths_or_times():
    checks = [line("a", observed=float("nan")), line("b", False, ci_low=float("inf"))]
    texts = {json.dumps(validate_verdict(checks, "ab"), allow_nan=False) for _ in range(2)}
    assert len(texts) == 1
    (text,) = texts
    assert str(ROOT) not in text
    assert "site-packages" not in text
    assert "load_time" not in text


NUMBER = st.none() | st.floats(allow_nan=True, allow_infinity=True)
RESULT = st.builds(
    CheckResult,
    name=st.sampled_from("abcdef"), passed=st.booleans(), observed=NUMBER, threshold=NUMBER, ci_low=NUMBER,
    ci_high=NUMBER, n=st.integers(0, 9), severity=st.sampled_from(["gate", "advisory"]), detail=st.text(max_size=9),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(results=st.lists(RESULT, max_size=5, unique_by=lambda result: result.name))
def test_it_agrees_with_the_gate(results):
    verdict = Verdict(results)
    result = validate_verdict(verdict.to_json()["checks"], [one.name for one in results])
    assert result["success"] == verdict.passed
    failed = next(one for one in result["results"] if "failed" in one["result"]["details"])
    assert failed["result"]["details"]["failed"] == verdict.failed
    json.dumps(result, allow_nan=False)
