"""Test that Great Expectations passes good ratings and refuses every planted violation in plain words."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import expectations
from checks.expectations import validate_ratings, validate_verdict
from checks.result import CheckResult, Verdict
from tasks.config.gate import check_names
from tasks.errors import UsageError

ROOT = Path(__file__).parents[2]
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


REFUSALS = [
    (_with(3, np.nan, array=2), {}, "not a number: 1 rating"),
    (_with(3, 5.5, array=2), {}, "outside the scale from 1 to 5: 1 rating"),
    (_with(3, np.inf, array=2), {}, "outside the scale from 1 to 5: 1 rating"),
    (_with([0, 3], 0.5, array=2), {}, "outside the scale from 1 to 5: 2 ratings"),
    (_with(1, 0, array=1), {}, "more than one rating of an item by the same user: 1 rating"),
    (_with(1, 7, array=1), {}, "a rating refers to an item outside the list of 3 items"),
    (_with(1, -1, array=1), {}, "a rating refers to an item outside the list of 3 items"),
    (_with(2, 2, array=0), {}, "without any rating: 1 user"),
    (_with(4, 6, array=0), {}, "7 items and 7 values were written for 6 ratings"),
    (arrays(), {"items": 4}, "the ratings refer to 3 items, but the item list has 4"),
]


@pytest.mark.parametrize(("planted", "settings", "words"), REFUSALS, ids=[words for *_, words in REFUSALS])
def test_damage_is_refused_in_plain_words(planted, settings, words):
    with pytest.raises(UsageError) as caught:
        validate_ratings(*planted, **{**SETTINGS, **settings}, where="ratings.csv")
    error = caught.value
    assert error.what.startswith("the ratings that ingest wrote are damaged: ")
    assert words in error.what
    assert error.what.count(words) == 1  # both frames find it
    assert error.where == "ingest of ratings.csv"
    assert "run the step again" in error.remedy
    assert not re.search("expect_|totals", str(error))


@pytest.mark.parametrize(
    ("planted", "settings", "words", "remedy"),
    [
        (
            arrays(),
            {"minimum_users": 5},
            "the source has 4 users, fewer than privacy.k = 5",
            "use more data, or a smaller privacy.k",
        ),
        (
            (np.array([0, 1]), np.array([0], np.int32), np.array([3], np.float32)),
            {"items": 1},
            "the source has 1 user, fewer than privacy.k = 3; the source has ratings of 1 item; at least 2 are needed",
            "use more data, or a smaller privacy.k; use more data; check that source.columns.item names the column",
        ),
        (
            (np.arange(5), np.zeros(4, np.int32), np.full(4, 3, np.float32)),
            {"items": 1},
            "the source has ratings of 1 item; at least 2 are needed",
            "use more data; check that source.columns.item names the column",
        ),
        (
            (np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)),
            {"items": 0},
            "the source has 0 users, fewer than privacy.k = 3; the source has ratings of 0 items; "
            "at least 2 are needed; the source has no ratings",
            "check source.path",
        ),
    ],
    ids=["few users", "one user", "one item", "nothing"],
)
def test_a_source_that_is_too_small_is_refused_in_the_owners_words(planted, settings, words, remedy):
    with pytest.raises(UsageError) as caught:
        validate_ratings(*planted, **{**SETTINGS, **settings}, where="ratings.csv")
    assert (caught.value.what, caught.value.where) == (words, "ratings.csv")
    assert remedy in caught.value.remedy
    assert "fault" not in str(caught.value)


def test_wrong_types_are_refused():
    indptr, indices, values = arrays()
    with pytest.raises(UsageError, match="the rating column has the type float64, not float32"):
        validate_ratings(indptr, indices, values.astype(np.float64), **SETTINGS)


def test_constant_ratings_are_valid():
    indptr, indices, values = arrays()
    assert validate_ratings(indptr, indices, np.full_like(values, 4), **SETTINGS)["ratings"] == 7


def test_every_expectation_has_words_for_its_refusal():
    indptr, indices, values = arrays()
    totals = expectations._totals(indptr, indices, values, 3, (1.0, 5.0))
    frame = expectations._every_user(indptr, indices, values, 1)
    minimum = {"users": 3, "items": 2}
    every = [
        *expectations._expected_totals(totals, minimum, 3, 7, (1.0, 5.0)),
        *expectations._expected_ratings(frame, totals, 4, 3, (1.0, 5.0), 1),
    ]
    assert len(every) == validate_ratings(*arrays(), **SETTINGS)["expectations"]
    assert all(len(one.meta["what"]) > 10 for one in every)


def test_an_expectation_that_cannot_be_evaluated_is_reported(monkeypatch):
    failed = SimpleNamespace(
        expectation_config=SimpleNamespace(meta={"what": "not a number: 0 ratings"}),
        exception_info={"raised_exception": True},
    )
    assert "could not be evaluated" in expectations._refusal([failed], "x").what


def test_large_data_sample_whole_users_with_exact_totals(monkeypatch):
    monkeypatch.setattr(expectations, "WHOLE_FRAME", 4)
    monkeypatch.setattr(expectations, "BLOCK_USERS", 3)
    assert validate_ratings(*arrays(), **SETTINGS)["ratings_in_frame"] == 3  # users 0 and 2
    with pytest.raises(UsageError, match="outside the scale from 1 to 5: 1 rating"):
        validate_ratings(*_with(3, 9, array=2), **SETTINGS)  # user 1 is not in the sample


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


@pytest.mark.slow
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


def test_passed_verdict_succeeds_and_shows_every_figure():
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


def test_same_verdict_gives_same_bytes():
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
