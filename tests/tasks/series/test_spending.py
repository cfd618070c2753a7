"""Test that erased people are left out of what synthetic rows are made of, worked out by hand."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tasks.config import Budget
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.series.budget import digest_of_tokens
from tasks.series.ledger import Ledger
from tasks.series.spending import Payment, keep_unblocked, read_blocked
from tasks.store import Store

PAYMENT = Payment(population="people", release="rows", budget=Budget(epsilon=1.0))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return Store(tmp_path / "store")


@pytest.fixture
def everybody(tmp_path):
    """Four people; only bob and dan rated z."""
    place = tmp_path / "ingest" / "everybody"
    place.mkdir(parents=True)
    write_ids(place, "user", ["ann", "bob", "cid", "dan"])
    write_ids(place, "item", ["x", "y", "z"])
    rated = np.array([[5, 0, 0], [4, 0, 1], [3, 2, 0], [0, 0, 2]], np.float32)
    write_matrix(place, sp.csr_array(rated))
    return place


def test_without_a_block_list_everybody_stays(store, everybody):
    out = everybody.parent
    assert keep_unblocked(PAYMENT, everybody, out, store) == {}
    assert (Ratings(out).n_users, Ratings(out).item_ids()) == (4, ["x", "y", "z"])
    assert read_blocked(out) == digest_of_tokens(())
    assert not everybody.exists()
    assert not Ledger.exists(store, "people")


def test_erased_people_and_their_items_are_left_out(store, everybody):
    """Neither ratings nor the name of an item are left of them."""
    with Ledger.open(store, "people") as ledger:
        for token in ledger.tokens(["bob", "dan"]):
            ledger.erase(token)
        blocked = digest_of_tokens(ledger.blocked())
    out = everybody.parent
    assert keep_unblocked(PAYMENT, everybody, out, store) == {"users": 2, "items": 2, "ratings": 3}
    ratings = Ratings(out)
    assert (ratings.user_ids().to_pylist(), ratings.item_ids()) == (["ann", "cid"], ["x", "y"])
    assert ratings.by_user.whole().toarray().tolist() == [[5, 0], [3, 2]]
    assert ratings.by_item.whole().toarray().tolist() == [[5, 3], [0, 2]]
    assert read_blocked(out) == blocked != digest_of_tokens(())
    assert pq.read_table(out / "users.parquet").num_rows == 2


def test_the_results_of_a_trial_have_no_block_list(tmp_path):
    assert read_blocked(tmp_path) is None
