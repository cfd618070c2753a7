"""Test how tests are sorted into lanes and files."""

import re
from pathlib import Path

import pytest

from tests.conftest import LONGEST_FIRST, ROOT

TESTS = ROOT / "tests"


def test_order_names_files():
    """Files that are to begin first exist, each once."""
    assert [file for file in LONGEST_FIRST if not (ROOT / file).is_file()] == []
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)


@pytest.mark.parametrize("package", ["tasks", "checks"])
def test_tests_mirror_the_tree(package):
    """Every folder of tests has a folder of code beside it: tests/tasks/formats tests tasks/formats."""
    folders = {path.parent.relative_to(TESTS) for path in (TESTS / package).rglob("test_*.py")}
    assert sorted(str(folder) for folder in folders if not (ROOT / folder).is_dir()) == []


def test_lanes_in_makefile():
    """`make quick` leaves out every lane that pyproject.toml declares."""
    declared = re.findall(r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert sorted(declared) == ["data", "slow", "stack"]
    quick = Path(ROOT / "Makefile").read_text()
    assert all(f"not {lane}" in quick for lane in declared)
