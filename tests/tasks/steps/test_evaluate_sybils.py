"""Test the runs with made-up accounts inside `evaluate`: what is kept of them, and that nothing else is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from checks.evidence.release import Release
from tasks import pipeline
from tasks.config import parse
from tasks.data.ratings import write_ids, write_matrix
from tasks.engine import Engine
from tasks.keys import OwnerKey
from tasks.shadow.split import STUDY_PURPOSE
from tasks.store import Store, files_below
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)
PADDING = {"rank": 4, "iterations": 3}
pytestmark = pytest.mark.slow


@pytest.fixture
def evaluated(tmp_path, taste_matrix):
    """Run the step on 300 users, 80 items and 14,000 ratings: (store, purpose, tables) → (its directory, CPU times)."""
    matrix, place = taste_matrix(users=300, items=80, share=0.6), tmp_path / "given"
    place.mkdir()
    write_ids(place, "user", [f"person {n:04}" for n in range(300)])
    write_ids(place, "item", [f"i{n:04}" for n in range(80)])
    write_matrix(place, matrix)

    def run(store="store", purpose="release", **tables):
        source = {"format": "csv", "path": "-", "scale": [1, 5]}
        config = parse({"release": {"name": "t"}, "source": source, "padding": PADDING, **tables})
        opened = pipeline.open_run(config, SNAPSHOT, Store(tmp_path / store), Engine(), lambda *_: None)
        given = {"ingest": {"path": str(place), "digest": "given", "counts": {}}}
        run = replace(opened, key=KEY, given=given, purpose=purpose)
        return Path(pipeline.execute("evaluate", run)["path"]), run.seconds

    return run


def test_releases_with_sybils_are_kept(evaluated):
    out, seconds = evaluated()
    opinions, copies = (Release(out / "sybil" / name) for name in ("opinions", "copies"))
    targets = pq.read_table(out / "sybil" / "opinions" / "targets.parquet").to_pandas()
    assert len(targets) == 600
    again = pq.read_table(out / "sybil" / "opinions-2" / "targets.parquet").to_pandas()
    assert len(again) == 600  # fewer than a thousand opinions need a second run
    both = targets.merge(again, on="rater", suffixes=("", "_again"))
    assert set(targets["rater"]) <= set(range(300))
    assert not set(both["pseudonym"]) & set(both["pseudonym_again"])
    assert targets["item"].is_unique
    assert opinions.n_items > 600
    assert set(targets["pseudonym"]) <= set(opinions.pseudonyms.to_pylist())
    assert len(opinions.pseudonyms) == 300 + 3 * 2
    assert (opinions.listed >= 5).all()
    accounts = pq.read_table(out / "sybil" / "copies" / "accounts.parquet").to_pandas()
    assert copies.n_items == 80
    assert len(copies.pseudonyms) == 300 + accounts["copy"].sum()
    assert (accounts.groupby("target")["copy"].sum() == 4).all()
    # Counted apart, by the purpose of the run.
    assert {"sybil opinions padding", "sybil copies clustering"} <= set(seconds)
    # No id of the source, no intermediate file.
    sybil = out / "sybil"
    assert not any(b"person" in file.read_bytes() for file in sybil.rglob("*") if file.is_file())
    assert not (out / "work").exists()
    again, _ = evaluated("another")
    assert files_below(again) == files_below(out)


def rater_correlation(out):
    """Return how far the levels of columns follow what their one real rater thought."""
    release = Release(out / "sybil" / "opinions")
    targets = pq.read_table(out / "sybil" / "opinions" / "targets.parquet").to_pandas()
    values = np.vstack([block.table() for block in release.blocks()])
    level = values.mean(axis=0)[targets["item"]]
    return np.corrcoef(level, targets["rating"] - targets["usual"])[0, 1]


def test_a_model_that_hides_raters_hides_the_one_rater_of_a_column(evaluated):
    """Without noise on levels, the level of a column is higher where its one real rater liked the item."""
    defended, _ = evaluated()
    undefended, _ = evaluated("another", padding={**PADDING, "phantom_raters": 0, "level_only_below": 0})
    assert rater_correlation(undefended) > 0.7
    assert rater_correlation(defended) < 0.25


def test_single_people_and_studies_need_no_sybils(evaluated):
    assert not (evaluated(privacy={"method": "perturbation"})[0] / "sybil").exists()
    assert not (evaluated("another", STUDY_PURPOSE)[0] / "sybil").exists()


@pytest.mark.parametrize("method", ["predictive-simple", "microaggregation"])
def test_other_methods_of_groups(evaluated, method):
    out, _ = evaluated(privacy={"method": method})
    assert {place.name for place in (out / "sybil").iterdir()} == {
        "opinions",
        "opinions-2",
        "copies",
    }
