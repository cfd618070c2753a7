"""Test that profiles which hold every item are stored as those which list the same items."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tasks.data import profiles
from tasks.series.row_store import RowStore

CODES = np.arange(40, dtype=np.uint8).reshape(8, 5)
SIZES = np.arange(3, 11, dtype=np.int32)
UINT8 = np.dtype("u1")


@pytest.fixture
def releases(tmp_path):
    """Return two published releases of the same eight profiles: items null, and listed."""
    listed = sp.csr_array((CODES.ravel(), np.tile(np.arange(5), 8), 5 * np.arange(9)), shape=(8, 5))
    found = []
    for name in ("null", "listed"):
        place = tmp_path / name
        place.mkdir()
        parts = [place / f"{number}.arrow" for number in range(2)]
        for number, part in enumerate(parts):
            some = slice(4 * number, 4 * number + 4)
            if name == "null":
                profiles.write_dense(part, some.start, SIZES[some], CODES[some])
            else:
                profiles.write_sparse(part, some.start, SIZES[some], sp.csr_array(listed[some]))
        profiles.join(parts, place / "groups.parquet")
        pq.write_table(pa.table({"item": list("abcde")}), place / "items.parquet")
        found.append(place)
    return found


@pytest.mark.parametrize(
    ("position", "width"),
    [(None, 5), ([0, 1, 2, 3, 4], 5), ([0, 1, 2, 3, 4], 7), ([2, 3, 4, 5, 6], 7), ([4, 0, 6, 1, 2], 7)],
)
def test_null_and_listed_items_are_the_same(releases, tmp_path, position, width):
    order, wanted = np.array([3, 0, 2, 1]), np.array([1, 2, 5, 6])
    tables = []
    for number, release in enumerate(releases):
        rows = RowStore(tmp_path / f"rows-{number}", UINT8)
        if position is None:
            assert rows.add_published(release, wanted).tolist() == wanted.tolist()
        else:
            rows.add_cohort(release / "groups.parquet", np.array(position))
        tables.append(pa.concat_tables(rows.tables(order, width)))
    assert tables[0].equals(tables[1])
    source = wanted[order] if position is None else order
    by_item = np.arange(5) if position is None else np.argsort(position)
    assert tables[0].column("size").to_pylist() == SIZES[source].tolist()
    assert tables[0].column("ratings").to_pylist() == [CODES[row][by_item].tobytes() for row in source]
    listed = None if position is None or position == list(range(width)) else sorted(position)
    assert tables[0].column("items").to_pylist() == [listed] * 4
