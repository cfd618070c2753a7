"""Test microaggregation end to end: what is published, which check refuses what, the same bytes however it is run."""

import json

import pyarrow.parquet as pq
import pytest

from tasks import pipeline
from tasks.config import parse
from tasks.errors import Refused
from tasks.store import Store, read_json
from tests.conftest import SNAPSHOT


@pytest.fixture(autouse=True)
def _one_secret(tmp_path, monkeypatch):
    path = tmp_path / "key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(path))


def settings(min_contributors=3, **microaggregation):
    return parse(
        {
            "release": {"name": "films"},
            "source": {
                "format": "synthetic",
                "synthetic": {"users": 400, "items": 90, "ratings_per_user": 30.0},
            },
            "privacy": {"method": "microaggregation", "k": 5, "min_contributors": min_contributors},
            "microaggregation": microaggregation,
        }
    )


def published_bytes(store):
    found = {file.name: file.read_bytes() for file in store.published("films", SNAPSHOT).iterdir()}
    manifest = json.loads(found.pop("manifest.json"))
    return found, {
        name: value for name, value in manifest.items() if name not in ("created_at", "code_version")
    }


@pytest.mark.slow
@pytest.mark.parametrize("table", [{}, {"within_bins": True, "variable": True, "gamma": 0.5}])
@pytest.mark.usefixtures("shared_workers")
def test_predictions_are_published_with_any_number_of_workers(tmp_path, monkeypatch, table):
    made = {}
    for workers in ("0", "2") if table else ("0", "1", "2"):
        monkeypatch.setenv("MURMUR_WORKERS", workers)
        store = Store(tmp_path / workers)
        pipeline.run(settings(**table), SNAPSHOT, store, progress=lambda *_: None)
        made[workers] = published_bytes(store)
    assert all(made[workers] == made["0"] for workers in made)
    published = store.published("films", SNAPSHOT)
    manifest = read_json(published / "manifest.json")
    groups = pq.read_table(published / "groups.parquet")
    assert manifest["method"] == "microaggregation"
    assert groups.column("items").null_count == len(groups)  # every group holds every item
    assert min(groups.column("size").to_pylist()) >= 5
    assert all(check["passed"] or check["severity"] == "advisory" for check in manifest["checks"])


def test_the_paper_to_the_letter_is_refused(tmp_path):
    store = Store(tmp_path / "store")
    with pytest.raises(Refused, match="recovery"):
        pipeline.run(
            settings(min_contributors=1, imputation="central"), SNAPSHOT, store, progress=lambda *_: None
        )
    assert not store.published("films", SNAPSHOT).exists()
    verdict = read_json(store.private("films", SNAPSHOT) / "verdict.json")
    failed = {c["name"] for c in verdict["checks"] if not c["passed"] and c["severity"] == "gate"}
    # Constants cancel out: what deviates was rated, and the size of the deviation reveals the rating.
    assert {"recovery", "contributors"} <= failed


@pytest.mark.slow
@pytest.mark.parametrize("imputation", ["central", "item-mean", "user-mean"])
def test_cells_that_deviate_from_what_is_imputed_tell_who_rated(tmp_path, imputation):
    """Even with three contributors at least: of five members most have rated what is not the imputed value."""
    store = Store(tmp_path / "store")
    with pytest.raises(Refused, match="recovery: largest gain: links"):
        pipeline.run(settings(imputation=imputation), SNAPSHOT, store, progress=lambda *_: None)
