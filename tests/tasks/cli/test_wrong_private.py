"""Test that the private directory of another release is refused before anything is computed with it."""

import json

import pytest

from tasks.cli import main
from tests.tasks.series.small_series import SmallSeries, people

FIRST, SECOND = "2026-01-01", "2026-02-01"


@pytest.mark.parametrize("command", [["audit"], ["attack", "tf-idf", "--release"]])
def test_the_private_directory_of_another_release_is_refused(tmp_path, capsys, command):
    series = SmallSeries(tmp_path)
    series.publish(FIRST, people(0, 9))
    series.publish(SECOND, people(9, 6))
    source = ["--source", str(tmp_path / "ratings.csv"), "--format", "csv"]
    place = [str(series.public(SECOND)), "--private", str(series.private(FIRST))]
    assert main([*command, *place, *source, "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert "private directory of another release" in error["what"]
    assert error["where"] == f"--private {series.private(FIRST)}"
    assert SECOND in error["remedy"]
    assert "Warning" not in err
    assert "canary" not in out + err


def test_the_release_and_its_own_private_directory_are_read(tmp_path, capsys):
    """Here the missing source is what is wrong."""
    series = SmallSeries(tmp_path)
    series.publish(FIRST, people(0, 9))
    source = ["--source", str(tmp_path / "ratings.csv"), "--format", "csv"]
    place = [str(series.public(FIRST)), "--private", str(series.private(FIRST))]
    assert main(["audit", *place, *source, "--json"]) == 2
    assert "no such file" in json.loads(capsys.readouterr().out)["error"]["what"]
