"""Test the comparison of two stores on releases of two files and two checks."""

import pytest

from benchmarks.same_release import FILES, main
from tasks.store import write_json


@pytest.fixture
def store(tmp_path):
    """Write a store with one release: (name, observed figure, content, published or refused)."""

    def make(name, observed=0.5, content=b"codes", published=True):
        private = tmp_path / name / "private" / "films" / "2026-01-01"
        private.mkdir(parents=True)
        release = (
            tmp_path / name / "published" / "films" / "2026-01-01"
            if published
            else private / "work" / "validate" / "candidate"
        )
        release.mkdir(parents=True)
        for file in FILES:
            (release / file).write_bytes(content)
        figures = {
            "passed": True,
            "threshold": 1,
            "ci_low": None,
            "ci_high": None,
            "n": 3,
            "severity": "gate",
        }
        write_json(
            release / "checks.json", [{"name": "recovery", "observed": observed, "detail": name, **figures}]
        )
        write_json(release / "manifest.json", {})
        return str(tmp_path / name)

    return make


@pytest.mark.parametrize("published", [True, False])
def test_equal_releases_differ_in_words_only(store, published, capsys):
    assert main([store("before", published=published), store("after", published=published)]) == 0
    assert "1 releases compared, 0 differences" in capsys.readouterr().out


def test_changed_bytes_and_figures_are_named(store, capsys):
    assert main([store("before"), store("after", observed=0.6, content=b"other")]) == 1
    printed = capsys.readouterr().out
    assert "films/2026-01-01: groups.parquet: other bytes" in printed
    assert "recovery: observed 0.5 before, 0.6 after" in printed


def test_nothing_in_common_is_a_difference(store, tmp_path):
    (tmp_path / "empty").mkdir()
    assert main([store("before"), str(tmp_path / "empty")]) == 1
