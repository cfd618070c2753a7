"""Test how the real raters of groups are counted, and the file they are written to."""

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.data import support
from tasks.data.ratings import Ratings, write_added, write_ids, write_matrix
from tasks.data.support import Support, count_raters


def stored(directory, table, added=None):
    """Write a table of ratings (0: none); `added` marks those that are made up."""
    table = np.asarray(table, np.float32)
    write_matrix(directory, sp.csr_array(table))
    write_ids(directory, "user", [f"u{n}" for n in range(len(table))])
    write_ids(directory, "item", [f"i{n}" for n in range(table.shape[1])])
    if added is not None:
        write_added(directory, sp.csr_array(np.asarray(added, np.float32)))
    return Ratings(directory)


TABLE = [[5, 0, 3], [4, 1, 0], [0, 0, 2], [1, 1, 1], [2, 0, 0]]
LABELS = np.array([0, 1, 0, 1, 1])


def dense(counts):
    found = np.zeros((len(counts.sizes), counts.n_items), int)
    found[counts.group, counts.item] = counts.raters
    return found.tolist()


def test_raters_by_hand(tmp_path):
    counts = count_raters(stored(tmp_path, TABLE), LABELS)
    assert dense(counts) == [[1, 0, 2], [3, 2, 1]]
    assert counts.sizes.tolist() == [2, 3]
    assert counts.raters.min() == 1


def test_made_up_ratings_do_not_count(tmp_path):
    """The fourth user's rating of the first item and the third user's only one are made up."""
    added = [[0, 0, 0], [0, 0, 0], [0, 0, 2], [1, 0, 0], [0, 0, 0]]
    counts = count_raters(stored(tmp_path, TABLE, added), LABELS)
    assert dense(counts) == [[1, 0, 1], [2, 2, 1]]


def test_blocks_do_not_matter(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    table = np.where(draw.random((40, 12)) < 0.4, 3, 0)
    labels = draw.permutation(np.repeat(np.arange(5), 8))
    ratings = stored(tmp_path, table)
    whole = count_raters(ratings, labels)
    monkeypatch.setattr(support, "RATINGS_AT_ONCE", 10)
    parts = count_raters(ratings, labels)
    expected = [[int((table[labels == g, i] > 0).sum()) for i in range(12)] for g in range(5)]
    assert dense(whole) == dense(parts) == expected


def test_file_has_numbers_and_positions_of_the_release_in_order(tmp_path):
    cells = Support(np.array([0, 1, 2]), np.array([1, 0, 1]), np.array([3, 6, 9]))
    placed = cells.placed(np.array([5, -1, 2]), np.array([7, 4]))
    joined = placed.joined(Support(*(np.array([one], np.int32) for one in (2, 1, 3))))
    joined.write(tmp_path / support.FILE)
    table = pq.read_table(tmp_path / support.FILE)
    assert table.to_pydict() == {"group": [2, 2, 5], "item": [1, 4, 4], "raters": [3, 9, 3]}
    assert pq.read_schema(tmp_path / support.FILE).types == [support.SCHEMA.field(n).type for n in range(3)]
    assert Support.read(tmp_path / support.FILE).raters.tolist() == [3, 9, 3]
