"""Test `murmur expand --to support`: the counts of raters as rows."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.cli import main
from tasks.data.support import FILE, Support
from tasks.store import digest, write_json


def publish(place, items=("a", "=1+1", "c"), counts=((7, 0, 3), (7, 2, 6), (2, 1, 9))):
    place.mkdir()
    heads = {"group": pa.array([2, 7], pa.int32()), "size": pa.array([20, 24], pa.int32())}
    pq.write_table(pa.table(heads), place / "groups.parquet")
    pq.write_table(pa.table({"item": list(items)}), place / "items.parquet")
    pq.write_table(pa.table({"user": [], "group": []}), place / "members.parquet")
    if counts:
        Support(*(np.array(column, np.int32) for column in zip(*counts, strict=True))).write(place / FILE)
    manifest = {
        "rating_encoding": "uint8",
        "rating_scale": [1, 5],
        "rating_step": 0.1,
        "counts": {"users": 44},
    }
    write_json(
        place / "manifest.json", manifest | {"files": {f.name: digest(f) for f in place.glob("*.parquet")}}
    )
    return place


def expand(release, out):
    return main(["expand", str(release), "--to", "support", str(out)])


def test_rows_have_sizes_and_item_ids(tmp_path, capsys):
    """Ids that spreadsheet programs would evaluate are marked as text, as in all csv files."""
    assert expand(publish(tmp_path / "r"), tmp_path / "out.csv") == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["group", "size", "item", "raters"],
            ["2", "20", "'=1+1", "9"],
            ["7", "24", "a", "3"],
            ["7", "24", "c", "6"],
        ]


@pytest.mark.parametrize("fault", ["none", "changed", "taken"])
def test_refusals(tmp_path, capsys, fault):
    release = publish(tmp_path / "r", counts=() if fault == "none" else ((2, 1, 9),))
    if fault == "changed":
        Support(*(np.array([one], np.int32) for one in (2, 1, 6))).write(release / FILE)
    if fault == "taken":
        (tmp_path / "out.csv").write_text("mine")
    assert expand(release, tmp_path / "out.csv") == (3 if fault == "changed" else 2)
    words = {"none": "no counts of raters", "changed": "not as published", "taken": "exists already"}[fault]
    assert words in capsys.readouterr().err
    assert fault == "taken" or not (tmp_path / "out.csv").exists()
