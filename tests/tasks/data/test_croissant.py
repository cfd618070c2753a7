"""Test croissant.json: the fields that Croissant 1.1 requires, by hand, and by the mlcroissant package where it is."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.data.croissant import FILE, VERSION, metadata, renew_croissant, write_croissant
from tasks.data.profiles import SCHEMA
from tasks.store import digest, read_json, write_json

PUBLISHES = "Everybody in a group has the same profile."


@pytest.fixture
def release(tmp_path):
    """Write the smallest release: two people, one group, two items."""
    group = {"group": [0], "size": [2], "items": [None], "ratings": [b"\x01\x02"]}
    pq.write_table(pa.table(group, schema=SCHEMA), tmp_path / "groups.parquet")
    members = {"user": ["a", "b"], "group": pa.array([0, 0], pa.int32())}
    pq.write_table(pa.table(members), tmp_path / "members.parquet")
    pq.write_table(pa.table({"item": ["x", "y"]}), tmp_path / "items.parquet")
    manifest = {
        "schema_version": 1,
        "release": "films",
        "snapshot": "2026-01-01",
        "method": "predictive-padded",
        "privacy": {"k": 2, "l": 1, "b": 1, "min_contributors": 1},
        "rating_scale": [1.0, 5.0],
        "unit": "rating",
        "files": {file.name: digest(file) for file in tmp_path.iterdir()},
    }
    write_json(tmp_path / "manifest.json", manifest)
    write_croissant(tmp_path, PUBLISHES)
    return tmp_path


def test_every_file_and_column_is_described(release):
    known = read_json(release / FILE)
    assert known["conformsTo"] == VERSION == "http://mlcommons.org/croissant/1.1"
    assert known["@type"] == "sc:Dataset"
    assert known["name"] == "films-2026-01-01"
    assert {"description", "datePublished", "version", "citeAs"} <= known.keys()
    files = {one["contentUrl"]: one for one in known["distribution"]}
    for name in ("groups.parquet", "members.parquet", "items.parquet"):
        assert files[name]["sha256"] == digest(release / name)
        (records,) = [one for one in known["recordSet"] if one["@id"] == name.removesuffix(".parquet")]
        columns = [field["source"]["extract"]["column"] for field in records["field"]]
        assert columns == pq.read_schema(release / name).names
        assert all(field["source"]["fileObject"]["@id"] == name for field in records["field"])
    assert set(files) == {"groups.parquet", "members.parquet", "items.parquet"}


def test_it_says_what_was_done_to_people(release):
    known = read_json(release / FILE)
    assert "k = 2" in known["rai:dataPreprocessingProtocol"]
    assert known["rai:dataManipulationProtocol"] == PUBLISHES
    for name in (
        "dataCollection",
        "dataBiases",
        "dataLimitations",
        "dataUseCases",
        "personalSensitiveInformation",
    ):
        assert known[f"rai:{name}"].endswith(".")


def test_the_same_bytes_and_nothing_beside_the_manifest(release):
    first = (release / FILE).read_bytes()
    write_croissant(release, PUBLISHES)
    assert (release / FILE).read_bytes() == first
    assert "counts" not in json.dumps(metadata(release, PUBLISHES))


def test_a_repaired_release_has_its_own(release, tmp_path_factory):
    repaired = tmp_path_factory.mktemp("repaired")
    for name in ("groups.parquet", "members.parquet"):
        (repaired / name).write_bytes((release / name).read_bytes())
    pq.write_table(pa.table({"item": ["x", "z"]}), repaired / "items.parquet")
    renew_croissant(release, repaired, "2026-01-01-r1")
    known = read_json(repaired / FILE)
    assert known["name"] == "films-2026-01-01-r1"
    assert {one["name"]: one["sha256"] for one in known["distribution"]}["items.parquet"] == digest(
        repaired / "items.parquet"
    )


@pytest.mark.slow
def test_mlcroissant_accepts_and_loads_it(release):
    mlcroissant = pytest.importorskip(
        "mlcroissant", reason="mlcroissant is not installed (pip install mlcroissant)"
    )
    dataset = mlcroissant.Dataset(str(release / FILE))
    assert list(dataset.metadata.ctx.issues.errors) == []
    records = list(dataset.records("members"))
    assert [record["members/group"] for record in records] == [0, 0]
    broken = read_json(release / FILE) | {"distribution": []}
    write_json(release / FILE, broken)
    with pytest.raises(mlcroissant.ValidationError):
        mlcroissant.Dataset(str(release / FILE))
