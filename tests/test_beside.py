"""Test that a command that runs beside the tests decides with them, and that `make test` runs mypy so."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("code", "outcome", "status"),
    [(0, "assert True", 0), (1, "assert True", 1), (0, "assert False", 1)],
    ids=["both pass", "the command fails", "a test fails"],
)
def test_fails_with_either(tmp_path, code, outcome, status):
    """What the command said is shown in any case; it runs once, whatever the number of processes."""
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {outcome}\n")
    (tmp_path / "other.py").write_text(f"print('said by the', 'command'); raise SystemExit({code})")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = [
        "-p",
        "xdist",
        "-p",
        "tests.beside",
        f"--beside={sys.executable} {tmp_path / 'other.py'}",
        "-n",
        "1",
    ]
    where = ["-c", tmp_path / "pytest.ini", "--rootdir", tmp_path, "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *where],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.count("said by the command") == 1


def test_make_runs_both_linters():
    """No linter is lost on the way: ruff comes before the tests, mypy runs beside them."""
    rules = (ROOT / "Makefile").read_text().split("\n\n")
    (test,) = (rule for rule in rules if "\ntest: " in f"\n{rule}")
    assert "test: setup ruff " in test
    assert "-p tests.beside --beside=$(BIN)/mypy" in test
