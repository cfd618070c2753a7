"""Test what the gate finds in releases of real data: with the defaults, and without the defences."""

import datetime

import pytest

from tasks import pipeline
from tasks.config import parse
from tasks.errors import Refused
from tasks.store import Store, read_json

SNAPSHOT = datetime.date(2026, 1, 1)
UNDEFENDED = {
    "privacy": {"clip_groups": 1.0},
    "padding": {"rank": 16, "phantom_raters": 0, "level_only_below": 0},
}


@pytest.fixture
def release(real_data, tmp_path, monkeypatch):
    """Run a release of MovieLens 100K with a fixed secret; returns what failed, or nothing."""
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(32)))
    secret.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    source = {"format": "movielens-100k", "path": str(real_data("ml-100k"))}

    def run(**tables):
        config = parse({"release": {"name": "real"}, "source": source, **tables}, "test")
        try:
            pipeline.run(config, SNAPSHOT, Store(tmp_path / "store"))
        except Refused:
            return read_json(tmp_path / "store/private/real/2026-01-01/verdict.json")["failed"]
        return []

    return run


@pytest.mark.slow
def test_the_default_release_of_100k_is_published(release):
    """With any secret, as far as eight of them show it (decision 18)."""
    assert release() == []


@pytest.mark.slow
def test_a_release_without_defences_is_refused_by_the_attacks_on_leverage(release):
    failed = release(**UNDEFENDED)
    assert {"link-recovery", "membership-inference", "rare-items", "sybil"} <= set(failed)
