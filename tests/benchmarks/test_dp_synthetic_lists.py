"""Test the yardstick of the benchmark of synthetic rows on small data."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import dp_synthetic as bench
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.engine import single_threaded


@pytest.fixture(scope="module")
def matrix() -> sp.csr_array:
    """Make people with one of two tastes, who rate the items of their own far more often, and never below 4."""
    rng = np.random.default_rng(0)
    own = (rng.random(1500) < 0.5)[:, None] == (np.arange(40) % 2 == 0)
    rated = rng.random(own.shape) < np.where(own, 0.5, 0.05)
    return sp.csr_array(np.where(rated, rng.integers(4, 6, own.shape), 0).astype(np.float32))


def test_a_tenth_is_held_out_and_nothing_is_lost(matrix):
    task = bench.task_of(matrix, (1.0, 5.0))
    assert task.known.nnz + task.relevant.nnz == matrix.nnz  # every rating is relevant
    assert task.relevant.nnz == pytest.approx(0.1 * matrix.nnz, rel=0.1)
    assert (task.known != 0).multiply(task.relevant != 0).nnz == 0


def test_only_ratings_from_three_quarters_of_the_scale_on_are_relevant():
    row = sp.csr_array(np.tile(np.array([[1.0, 3.0, 3.9, 4.0, 5.0]], np.float32), (400, 1)))
    task = bench.task_of(row, (1.0, 5.0))
    assert set(task.relevant.indices) == {3, 4}


def test_ease_finds_tastes_that_popularity_cannot(matrix):
    with single_threaded():
        task = bench.task_of(matrix, (1.0, 5.0))
        yardstick = bench.of_original(task)
    assert yardstick["original"] > 1.3 * yardstick["popularity"]


def test_a_release_comes_near_the_original(matrix):
    with single_threaded():
        task = bench.task_of(matrix, (1.0, 5.0))
        original = bench.of_original(task)["original"]
        found = bench.of_release(task, {"epsilon": 20.0}, 0, original)
    assert found["share"] > 0.8
    assert found["epsilon_spent"] <= 20


def test_items_that_were_not_released_count_as_missed(matrix):
    task = bench.task_of(matrix, (1.0, 5.0))
    with single_threaded():
        weights = bench.company(task.known)
    none = task.ndcg_of(weights[:2, :2], np.array([0, 1]))
    assert none < 0.5 * task.ndcg_of(weights, np.arange(40))


def test_a_release_of_which_nothing_comes_out_has_no_figure(matrix):
    task = bench.task_of(sp.csr_array(matrix[:30]), (1.0, 5.0))
    assert bench.of_release(task, {"epsilon": 0.5}, 0, 0.5)["ndcg"] is None


def test_growing_data(tmp_path):
    """Ratings of January, February and March 2000: the first release is made at the end of February."""
    rows = sp.csr_array(np.array([[5.0, 4.0, 0], [0, 0, 3.0], [0, 2.0, 0]], np.float32))
    days = np.array(["2000-01-05", "2000-02-07", "2000-03-01", "2000-01-20"], "datetime64[s]").astype(
        np.int64
    )
    write_ids(tmp_path, "user", ["a", "b", "c"])
    write_ids(tmp_path, "item", ["x", "y", "z"])
    write_matrix(tmp_path, rows, days)
    found = {name: one.toarray().tolist() for name, one in bench.growing(Ratings(tmp_path), 2)}
    assert found == {"2000-02": [[5, 4, 0], [0, 2, 0]], "2000-03": [[5, 4, 0], [0, 0, 3], [0, 2, 0]]}
