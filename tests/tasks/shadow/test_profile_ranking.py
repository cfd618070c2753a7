"""Test the ranks of released profiles against their definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.shadow import ranking
from tasks.shadow.record_recommender import UserScales
from tasks.store import write_json


class Drawn:
    """Hold what of a step's context draws the sample."""

    def __init__(self, generator):
        self.rng = lambda *names: generator


@pytest.mark.parametrize(
    ("method", "published", "most_items"),
    [
        ("predictive-padded", 30, 30),
        ("predictive-padded", 30, 11),  # a long catalogue: a sample of its items
        ("predictive-padded", 24, 11),
        ("predictive-simple", 30, 11),
    ],
)
def test_ranks_equal_definition_for_any_blocks(
    tmp_path, taste_matrix, monkeypatch, method, published, most_items
):
    rng = np.random.default_rng(4)
    matrix, groups = taste_matrix(users=40, items=30), 8
    labels = (np.arange(40) % groups).astype(np.int32)
    for name in ("ingest", "padding", "made"):
        (tmp_path / name).mkdir()
    write_ids(tmp_path / "ingest", "user", [str(n) for n in range(40)])
    write_ids(tmp_path / "ingest", "item", [str(n) for n in range(30)])
    write_matrix(tmp_path / "ingest", matrix)
    factors = {
        side: rng.standard_normal((n, 2)).astype(np.float32) for side, n in (("users", 40), ("items", 30))
    }
    for side, values in factors.items():
        np.save(tmp_path / "padding" / f"{side}.npy", values)
    write_json(tmp_path / "padding" / "model.json", {"mean": 3.3})
    items = np.sort(rng.choice(30, published, replace=False))
    codes, held = (
        rng.integers(0, 41, (groups, published)).astype(np.uint8),
        rng.random((groups, published)) < 0.6,
    )
    part = tmp_path / "made" / "part.arrow"
    if method == "predictive-padded":
        held[:] = True
        profiles.write_dense(part, 0, np.full(groups, 5), codes)
    else:
        row, column = np.nonzero(held)
        ends = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        listed = sp.csr_array((codes[row, column], column, ends), shape=codes.shape)
        profiles.write_sparse(part, 0, np.full(groups, 5), listed)
    profiles.join([part], tmp_path / "groups.parquet")
    profiles.unpack(tmp_path / "groups.parquet", tmp_path / "unpacked", codes.dtype)

    compared = ranking.Compared(
        Ratings(tmp_path / "ingest"),
        tmp_path / "padding",
        tmp_path / "unpacked",
        profiles.Coding.in_steps((1.0, 5.0), 0.1),
        None if published == 30 else items,
        {"metric": "weighted-squared", "max_diff": 4.0},
    )
    monkeypatch.setattr(ranking, "MOST_ITEMS", most_items)
    compared = ranking._with_sample(Drawn(np.random.default_rng(5)), compared)
    rows = 3.3 + factors["users"].astype(float) @ factors["items"].astype(float).T
    dense = matrix.toarray()
    rows[dense > 0] = dense[dense > 0]
    rows = rows[:, items]
    if method == "predictive-padded" and most_items < published:
        assert len(set(compared.sample.tolist())) == most_items
        rows, codes, held = (table[:, compared.sample] for table in (rows, codes, held))
    else:
        assert compared.sample is None
    apart = np.minimum(np.abs(rows[:, None, :] - (1 + codes * 0.1)[None, :, :]) / 4, 1)
    apart = np.where(held, 2 * apart - apart**2, 0).sum(axis=2) / held.sum(axis=1)
    expected_rank = 1 + (apart < apart[np.arange(40), labels][:, None]).sum(axis=1)
    for cells in (1, 100, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "CELLS_PER_BLOCK", cells)
            scales = UserScales(np.zeros(40, np.float32), np.ones(40, np.float32))
            nearest, rank = ranking._rank_block((np.arange(40), labels, scales), compared=compared)
        assert nearest.tolist() == apart.argmin(axis=1).tolist()
        assert rank.tolist() == expected_rank.tolist()
