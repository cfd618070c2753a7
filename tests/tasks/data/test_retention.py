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
