"""Great Expectations: passes good ratings, and fails on every planted violation, naming the expectation."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from checks import expectations
from checks.expectations import validate_ratings
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


ALONE = """
import socket, sys
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
