"""Test the parts of the benchmark of dp-synthetic at Netflix's size on small data."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from benchmarks import dp_netflix as bench
from benchmarks.dp_synthetic import Task


def test_a_tenth_is_held_out_and_only_what_was_liked_is_asked_for(tmp_path):
    draw = np.random.default_rng(0)
    (tmp_path / "ratings").mkdir()
    for part in range(2):
        users = np.repeat(np.arange(100 * part, 100 * part + 100), 40)
        columns = {
            "user": users,
            "item": np.tile(np.arange(40), 100),
            "rating": draw.integers(1, 6, len(users)),
        }
        pq.write_table(pa.table(columns), tmp_path / "ratings" / f"part-{part}.parquet")
    liked = bench.hold_out(tmp_path / "ratings", tmp_path / "known", 50)
    known = pq.read_table(tmp_path / "known")
    assert len(known) == pytest.approx(0.9 * 8000, rel=0.03)
    assert len(pc.unique(liked.column("user"))) == 50
    out = set(zip(liked.column("user").to_pylist(), liked.column("item").to_pylist(), strict=True))
    kept = set(zip(known.column("user").to_pylist(), known.column("item").to_pylist(), strict=True))
    assert not out & kept
    assert len(liked) == pytest.approx(50 * 40 * 0.1 * 2 / 5, rel=0.5)


def test_gram_counts_rows_that_have_both():
    rows = sp.csr_array(np.random.default_rng(1).random((50, 7)) < 0.4).astype(np.float32)
    found = bench.gram([rows[:20], rows[20:]], 7)
    assert (found == (rows.T @ rows).toarray()).all()


def test_popularity_recommends_what_most_rated_and_the_person_did_not():
    """The first person knows the most popular item and wants the next one; the other wants the least popular one."""
    known = sp.csr_array(np.array([[3.0, 0, 0], [0, 3.0, 0]]))
    relevant = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1]]))
    task = Task(known, relevant, (1.0, 5.0), np.arange(2))
    expected = (1 + 1 / np.log2(3)) / 2
    assert bench.by_popularity(task, np.array([9, 5, 1])) == pytest.approx(expected)
