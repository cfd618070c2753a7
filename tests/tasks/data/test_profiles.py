"""Test that profiles read from disk are those that were written, for any size of blocks."""

from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.data import profiles

KINDS = {"one byte": np.dtype("u1"), "two bytes": np.dtype("<u2"), "floats": np.dtype("<f4")}


def write(place, codes, held, cuts):
    """A file of these profiles (`held` None: every item), in parts that end at the cuts."""
    edges = sorted({0, len(codes), *cuts})
    parts = []
    for start, stop in pairwise(edges):
        parts.append(place / f"{start}.arrow")
        sizes = np.arange(start, stop) + 2
        if held is None:
            profiles.write_dense(parts[-1], start, sizes, codes[start:stop])
            continue
        rows, columns = np.nonzero(held[start:stop])
        ends = np.concatenate([[0], np.cumsum(held[start:stop].sum(axis=1))])
        some = sp.csr_array((codes[start:stop][rows, columns], columns, ends), shape=codes[start:stop].shape)
        profiles.write_sparse(parts[-1], start, sizes, some)
    profiles.join(parts, place / "groups.parquet")
    assert [file.name for file in place.iterdir()] == ["groups.parquet"]
    return place / "groups.parquet", [stop - start for start, stop in pairwise(edges)]


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(list(KINDS)),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 6),
    st.sets(st.integers(1, 8), max_size=3),
    st.integers(0, 1000),
)
def test_what_is_written_is_read(tmp_path_factory, kind, dense, groups, items, cuts, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 200, (groups, items)).astype(KINDS[kind])
    held = None if dense else rng.random((groups, items)) < 0.6
    place = tmp_path_factory.mktemp("profiles")
    path, rows = write(place, codes, held, {cut for cut in cuts if cut < groups})
    there = np.ones((groups, items), bool) if held is None else held
    expected = np.where(there, codes.astype(float), np.nan)
    sizes = np.arange(groups) + 2

    assert profiles.is_dense(path) == dense
    assert profiles.row_groups(path) == rows
    assert profiles.read_sizes(path).tolist() == sizes.tolist()
    assert profiles.count_ratings(path, items, KINDS[kind]) == int(there.sum(axis=1) @ sizes)

    def table(some):
        columns = np.tile(np.arange(items), len(some.sizes)) if some.items is None else some.items
        found = np.full((len(some.sizes), items), np.nan)
        found[np.repeat(np.arange(len(some.sizes)), some.lengths), columns] = some.codes
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiles, "ROWS_PER_BLOCK", 2)
        blocks = list(profiles.blocks(path, KINDS[kind]))
        profiles.unpack(path, place / "unpacked", KINDS[kind])
    assert max(len(block.sizes) for block in blocks) <= 2
    np.testing.assert_array_equal(np.concatenate([table(block) for block in blocks]), expected)
    assert np.concatenate([block.groups for block in blocks]).tolist() == list(range(groups))
    read = [profiles.read_row_group(path, number, KINDS[kind]) for number in range(len(rows))]
    np.testing.assert_array_equal(np.concatenate([table(some) for some in read]), expected)

    mapped = profiles.open_unpacked(place / "unpacked", KINDS[kind])
    np.testing.assert_array_equal(table(mapped.rows(groups // 2, groups)), expected[groups // 2 :])
    group, item = (side.ravel() for side in np.indices((groups, items)))
    np.testing.assert_array_equal(mapped.cells(group, item), expected.ravel())


def test_long_profiles_come_in_smaller_blocks(tmp_path, monkeypatch):
    """Ten profiles of 400 bytes and a little: three fit into 1,300 bytes, one where none does."""
    codes = np.zeros((10, 100), np.float32)
    path, _ = write(tmp_path, codes, None, ())
    for room, rows in ((1_300, [3, 3, 3, 1]), (10, [1] * 10), (10**6, [10])):
        monkeypatch.setattr(profiles, "BYTES_PER_BLOCK", room)
        assert [len(block.sizes) for block in profiles.blocks(path, np.dtype("<f4"))] == rows


def test_empty_groups_beside_complete_groups(tmp_path):
    path, _ = write(
        tmp_path, np.array([[7, 8, 9], [4, 5, 6]], np.uint8), np.array([[0, 1, 0], [1, 1, 1]], bool), ()
    )
    rows = pq.read_table(path).to_pylist()
    rows[1]["items"] = None  # the short form of docs/release-format.md
    pq.write_table(profiles.pa.Table.from_pylist(rows, schema=profiles.SCHEMA), path)
    [block] = profiles.blocks(path, np.dtype("u1"))
    assert block.items.tolist() == [1, 0, 1, 2]
    assert block.codes.tolist() == [8, 4, 5, 6]
