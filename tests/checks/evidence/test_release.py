"""Test reading a release: every encoding, and nothing that docs/release-format.md does not allow."""

import pickle
import stat

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.evidence import release_view as reader
from checks.evidence.release import Release
from tasks.errors import Refused
from tasks.store import read_json, write_json


def whole(release):
    return np.concatenate([block.table() for block in release.blocks()])


def test_values_are_read_back_to_the_step(case, releases):
    for name in ("padded", "simple"):
        release, wanted = case(name).release, releases[name].values
        read = whole(release)
        assert np.array_equal(np.isnan(read), np.isnan(wanted))
        assert np.nanmax(np.abs(read - wanted)) <= 0.0501
        assert release.complete is (name == "padded")
        assert release.cells == (~np.isnan(wanted)).sum()


@pytest.mark.parametrize("name", ["simple", "padded"])
def test_block_size_and_storage_do_not_matter(case, monkeypatch, tmp_path, name):
    opened = case(name).release
    once, alike = whole(opened), opened.profile_of_group
    monkeypatch.setattr(reader, "BLOCK_CELLS", 1000)
    monkeypatch.setattr(reader, "CACHE_BYTES", 10)
    for again in (Release(opened.directory), Release(opened.directory, tmp_path)):
        parts = list(again.blocks())
        assert len(parts) > 5
        assert np.array_equal(whole(again), once, equal_nan=True)
        assert (again.cells, again.complete) == (opened.cells, opened.complete)
        assert np.array_equal(again.profile_of_group, alike)
        for part in parts:
            rows = slice(part.start, part.start + part.rows)
            assert np.array_equal(part.pattern().toarray() > 0, ~np.isnan(once[rows]))
            assert part.matrix().toarray() == pytest.approx(np.nan_to_num(once[rows]))
            group, item = np.indices((part.rows, part.n_items)).reshape(2, -1)
            assert np.array_equal(part.at(group, item), once[rows].ravel(), equal_nan=True)
        again.close()
    assert list(tmp_path.glob(".attack-*")) == []


def test_large_release_is_decoded_once_into_private_files(case, monkeypatch, tmp_path):
    monkeypatch.setattr(reader, "CACHE_BYTES", 10)
    release = Release(case("simple").release.directory, tmp_path)
    release.profile_of_group  # noqa: B018
    monkeypatch.setattr(Release, "_decode", None)
    assert sum(len(block.codes) for block in release.blocks()) == release.cells
    (place,) = tmp_path.glob(".attack-*")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    there = pickle.loads(pickle.dumps(release.decoded_files))  # as workers get it
    for start, stop in release.ranges():
        assert np.array_equal(there.block(start, stop).codes, release.decoded_files.block(start, stop).codes)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), wide=st.booleans())
def test_any_release_is_read_back(tmp_path_factory, data, wide):
    groups, items = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    step = 0.01 if wide else 0.5
    codes = np.array(
        data.draw(st.lists(st.integers(0, round(4 / step)), min_size=groups * items, max_size=groups * items))
    ).reshape(groups, items)
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=groups * items, max_size=groups * items)))
    hidden = hidden.reshape(groups, items)
    hidden[:, 0] = False
    values = np.where(hidden, np.nan, 1 + codes * step).astype(np.float32)
    ratings = made.csr(np.arange(groups), np.zeros(groups, int), np.ones(groups), (groups, items))
    published, _ = made.write(
        made.Made(ratings, np.arange(groups), values, k=2, step=step), tmp_path_factory.mktemp("any")
    )
    release = Release(published)
    assert release.dtype.itemsize == (2 if wide else 1)
    assert whole(release) == pytest.approx(values, abs=1e-4, nan_ok=True)


def test_float32_values_and_rows_of_both_kinds(tmp_path):
    ratings = made.csr(np.arange(2), np.arange(2), np.ones(2), (2, 3))
    published, _ = made.write(
        made.Made(ratings, np.arange(2), np.ones((2, 3), np.float32), k=2), tmp_path / "r"
    )
    manifest = read_json(published / "manifest.json")
    write_json(published / "manifest.json", manifest | {"rating_encoding": "float32", "rating_step": None})
    rows = [np.array([0.25, -1.5, 7], "<f4"), np.array([2.5], "<f4")]
    pq.write_table(
        pa.table(
            {
                "group": pa.array([0, 1], pa.int32()),
                "size": pa.array([1, 1], pa.int32()),
                "items": pa.array([None, [1]], pa.list_(pa.int32())),
                "ratings": pa.array([r.tobytes() for r in rows], pa.binary()),
            }
        ),
        published / "groups.parquet",
    )
    release = Release(published)
    assert whole(release).tolist()[0] == [0.25, -1.5, 7]
    assert whole(release)[1] == pytest.approx([np.nan, 2.5, np.nan], nan_ok=True)
    assert (release.levels, release.complete) == (0, False)


def columns(published, **changed):
    table = pq.read_table(published / "groups.parquet")
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, published / "groups.parquet")


WRONG = {
    "wider numbers": lambda p, n: columns(p, size=pa.array([5] * n, pa.int64())),
    "a null group": lambda p, n: columns(p, group=pa.array([None] * n, pa.int32())),
    "too few ratings": lambda p, n: columns(p, ratings=pa.array([b"\x01"] * n)),
    "no ratings": lambda p, n: columns(p, ratings=pa.array([None] * n, pa.binary())),
    "an unknown item": lambda p, n: columns(
        p, items=pa.array([[10**6]] * n, pa.list_(pa.int32())), ratings=pa.array([b"\x01"] * n)
    ),
    "items out of order": lambda p, n: columns(
        p, items=pa.array([[1, 0]] * n, pa.list_(pa.int32())), ratings=pa.array([b"\x01\x01"] * n)
    ),
    "an item twice": lambda p, n: columns(
        p, items=pa.array([[1, 1]] * n, pa.list_(pa.int32())), ratings=pa.array([b"\x01\x01"] * n)
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_refused(case, what):
    opened = case().release
    WRONG[what](opened.directory, opened.n_groups)
    with pytest.raises(Refused):
        list(Release(opened.directory).blocks())


@pytest.mark.parametrize(
    "change",
    [
        {"privacy": {"k": 5}},
        {"privacy": {"k": True, "l": 1, "b": 1, "min_contributors": 1}},
        {"rating_scale": [5, 1]},
        {"rating_step": 0},
        {"rating_encoding": "text"},
        {"counts": 5},
    ],
)
def test_wrong_manifests_are_refused(case, change):
    published = case().release.directory
    write_json(published / "manifest.json", read_json(published / "manifest.json") | change)
    with pytest.raises(Refused, match="manifest"):
        Release(published)
