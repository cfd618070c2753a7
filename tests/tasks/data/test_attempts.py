"""Test the history of attempts at a snapshot."""

import stat

import pytest

from tasks.data.attempts import (
    HISTORY,
    attempt_key,
    count_attempts,
    count_for_audit,
    read_history,
    record_attempt,
)
from tasks.store import write_json


@pytest.fixture
def release(tmp_path):
    """Write a manifest: (what its data are) → directory."""

    def make(data: str):
        place = tmp_path / data
        place.mkdir(exist_ok=True)
        names = ("groups.parquet", "members.parquet", "items.parquet")
        write_json(place / "manifest.json", {"files": {name: f"{data} {name}" for name in names}})
        return place

    return make


def verdict(*failed):
    lines = [{"name": name, "observed": 0.7} for name in ("recovery", "homogeneity")]
    return {"passed": not failed, "failed": list(failed), "checks": lines}


def judge(private, public, *failed, settings=None, published=False):
    key = attempt_key(public, settings)
    attempts = count_attempts(private, key, published=published)
    record_attempt(private, key, attempts, verdict(*failed))
    return attempts


def test_every_other_release_is_an_attempt(tmp_path, release):
    assert judge(tmp_path, release("seed 1"), "recovery") == 1
    assert judge(tmp_path, release("seed 1"), "recovery") == 1  # judged again: the same attempt
    assert judge(tmp_path, release("seed 2"), "homogeneity") == 2
    assert judge(tmp_path, release("seed 2"), settings={"recovery": 0.9}) == 3
    history = read_history(tmp_path)
    assert [(entry["attempts"], entry["passed"], entry["failed"]) for entry in history] == [
        (1, False, {"recovery": 0.7}),
        (2, False, {"homogeneity": 0.7}),
        (3, True, {}),
    ]
    assert all("when" in entry for entry in history)
    assert stat.S_IMODE((tmp_path / HISTORY).stat().st_mode) == 0o600


def test_who_returns_to_an_earlier_release_has_tried_all(tmp_path, release):
    """Picking the best of many is as lucky as stopping at it."""
    for number in range(5):
        judge(tmp_path, release(f"seed {number}"), "recovery")
    assert judge(tmp_path, release("seed 0")) == 5
    assert len(read_history(tmp_path)) == 6  # nothing is overwritten


def test_what_is_published_keeps_its_number(tmp_path, release):
    judge(tmp_path, release("refused"), "recovery")
    assert judge(tmp_path, release("published")) == 2
    assert judge(tmp_path, release("later"), published=True) == 3
    assert judge(tmp_path, release("published"), published=True) == 2
    assert count_for_audit(tmp_path, release("published")) == 2
    assert count_for_audit(tmp_path, release("edited")) == 3


def test_without_a_history_there_was_one_attempt(tmp_path, release):
    assert count_for_audit(tmp_path, release("old")) == 1
    assert count_for_audit(tmp_path, tmp_path) == 1  # no manifest: the gate says what is wrong
