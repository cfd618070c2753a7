"""Test that only old intermediate results of published snapshots are removed."""

import datetime
import os

from tasks.data.retention import sweep
from tasks.store import Store


def make(store, day, *, published, age_days):
    snapshot = datetime.date(2026, 1, day)
    work = store.private("films", snapshot) / "work" / "padding"
    work.mkdir(parents=True)
    (work / "step.json").write_text("{}")
    (work.parents[1] / "membership.parquet").write_text("x")
    past = datetime.datetime.now().timestamp() - age_days * 86_400
    os.utime(work / "step.json", (past, past))
    if published:
        place = store.published("films", snapshot)
        place.mkdir(parents=True)
        (place / "manifest.json").write_text("{}")
    return work.parent


def test_only_old_published_intermediates_are_removed(tmp_path):
    store = Store(tmp_path)
    old, fresh, refused = (
        make(store, 1, published=True, age_days=8),
        make(store, 2, published=True, age_days=6),
        make(store, 3, published=False, age_days=30),
    )
    assert sweep(store, "films", 7) == [old]
    assert [place.exists() for place in (old, fresh, refused)] == [False, True, True]
    assert (old.parent / "membership.parquet").exists()


def test_another_releases_intermediates_stay(tmp_path):
    store = Store(tmp_path)
    work = make(store, 1, published=True, age_days=99)
    assert sweep(store, "books", 0) == []
    assert work.exists()


def test_refused_candidates_go_where_the_owner_says_so(tmp_path):
    """Old ones alone, with verdict and attempts left; one that passed waits for approval and stays."""
    store = Store(tmp_path)
    old, fresh, waiting = (
        make(store, 1, published=False, age_days=40),
        make(store, 2, published=False, age_days=20),
        make(store, 3, published=False, age_days=90),
    )
    (waiting / "validate").mkdir()
    (waiting / "validate" / "step.json").write_text("{}")
    past = datetime.datetime.now().timestamp() - 90 * 86_400
    os.utime(waiting / "validate" / "step.json", (past, past))
    for name in ("verdict.json", "attempts.json"):
        (old.parent / name).write_text("{}")
    assert sweep(store, "films", 7) == []
    assert sweep(store, "films", 7, 30) == [old]
    assert [place.exists() for place in (old, fresh, waiting)] == [False, True, True]
    assert sorted(path.name for path in old.parent.iterdir()) == [
        "attempts.json",
        "membership.parquet",
        "verdict.json",
    ]
