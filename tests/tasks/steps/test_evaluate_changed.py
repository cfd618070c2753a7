"""Test the shadow run where a step changes the ratings: its cost counts, and what the release leaves out is null."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence.release import Release
from tasks import pipeline
from tasks.config import parse
from tasks.data.ratings import write_attributes, write_ids, write_matrix
from tasks.engine import Engine
from tasks.keys import OwnerKey
from tasks.store import Store
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)
SOURCE = {"format": "csv", "path": "-", "scale": [1, 5], "attributes": {"path": "-", "columns": ["gender"]}}


@pytest.fixture
def evaluated(tmp_path, taste_matrix):
    """Run the step on one matrix: (store, tables of the configuration) → its directory."""
    matrix = taste_matrix(users=500, items=60, share=0.25)
    place = tmp_path / "given"
    place.mkdir()
    write_ids(place, "user", [f"person {n:04}" for n in range(500)])
    write_ids(place, "item", [f"i{n:04}" for n in range(60)])
    half = (matrix.toarray()[:, :30] > 0).sum(axis=1)
    write_attributes(place, {"gender": pa.array(np.where(half > np.median(half), "F", "M"))})
    write_matrix(place, matrix)

    def run(store, **tables):
        config = parse({"release": {"name": "t"}, "source": SOURCE, **tables})
        opened = pipeline.open_run(config, SNAPSHOT, Store(tmp_path / store), Engine(), lambda *_: None)
        given = {"ingest": {"path": str(place), "digest": "given", "counts": {}}}
        return Path(pipeline.execute("evaluate", replace(opened, key=KEY, given=given))["path"])

    run.matrix = matrix
    return run


def held_out(directory):
    return pq.read_table(directory / "heldout.parquet").to_pandas()


def rmse(table, column):
    return float(np.sqrt(((table[column] - table["truth"]) ** 2).mean()))


def test_baseline_is_fitted_on_real_ratings(evaluated):
    plain = held_out(evaluated("plain"))
    mixed = held_out(
        evaluated("mixed", obfuscation={"attribute": "gender", "share": 0.5, "strategy": "random"})
    )
    for column in ("truth", "original", "item_mean"):
        np.testing.assert_array_equal(plain[column], mixed[column])
    assert (
        rmse(mixed, "target") > rmse(plain, "target") + 0.01
    )  # so many made-up ratings cost something, and it counts
    assert not mixed["target"].equals(plain["target"])


def test_few_additions_cost_little(evaluated):
    tables = {"privacy": {"method": "obfuscation"}}
    few, many = (
        held_out(
            evaluated(
                f"{share}",
                **tables,
                obfuscation={"attribute": "gender", "share": share, "strategy": "random"},
            )
        )
        for share in (1e-6, 0.8)
    )
    np.testing.assert_array_equal(few["original"], many["original"])
    assert abs(rmse(few, "target") - rmse(few, "original")) < 0.01
    assert rmse(many, "target") - rmse(many, "original") > 0.03
    assert few.notna().all(axis=None)


def test_withheld_items_are_null(evaluated):
    out = evaluated("less", privacy={"method": "suppression"}, suppression={"share": 0.5})
    table = held_out(out)
    plain = held_out(evaluated("plain", privacy={"method": "suppression"}, suppression={"share": 0.0}))
    np.testing.assert_array_equal(table["original"], plain["original"])
    counts = np.bincount(evaluated.matrix.indices, minlength=60)
    stay = np.flatnonzero(counts >= np.sort(counts)[29] + 1)
    release = Release(out / "shadow-release")
    assert release.items.to_pylist() == [f"i{n:04}" for n in stay]
    assert plain["target"].notna().all()
    kept = pq.read_table(out / "shadow-release" / "held_out.parquet").to_pandas()
    assert table["target"].notna().sum() == len(kept)  # everybody here has something left
    assert table["similar"].notna().sum() == len(kept)
    # Predictions for the items that stay come from a recommender trained on them.
    known = table[table["target"].notna()]
    assert rmse(known, "target") < rmse(known, "random_group")
    ranks = pq.read_table(out / "ranks.parquet").column("self_rank").to_numpy()
    assert (ranks == 1).mean() > 0.9


def test_held_out_items_are_release_columns(evaluated):
    out = evaluated("less", privacy={"method": "suppression"}, suppression={"share": 0.5})
    release = Release(out / "shadow-release")
    kept = pq.read_table(out / "shadow-release" / "held_out.parquet").to_pandas()
    owner = pq.read_table(out / "shadow-release" / "membership.parquet").to_pandas()
    row = kept["pseudonym"].map(owner.set_index("pseudonym")["user"].str.slice(7).astype(int))
    item = kept["item"].map(dict(enumerate(int(name[1:]) for name in release.items.to_pylist())))
    table = held_out(out)
    truth = table["truth"][table["target"].notna()].to_numpy()
    np.testing.assert_array_equal(evaluated.matrix.toarray()[row, item], truth)
