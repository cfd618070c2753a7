"""Test what recommenders learn from each kind of release, by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.data import profiles
from tasks.recommenders import ease
from tasks.recommenders._support import shares_of_groups
from tasks.shadow import interactions
from tasks.shadow.interactions import Released, learn, learn_from_ratings
from tests import made_choices as made

LISTS = sp.csr_array(np.array([[5, 4, 0], [0, 3, 3], [1, 0, 2]], np.float32))
SIZES = np.array([2, 1, 3], np.int32)
VALUES = np.array([[5, 4, 3], [1, 1, 4]], np.float32)


def weights(gram, ridge):
    """EASE's weights as [Steck2019] writes them."""
    gram = np.asarray(gram, float)
    inverse = np.linalg.inv(gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram)))
    return np.where(np.eye(len(gram)) > 0, 0, -inverse / np.diag(inverse))


@pytest.fixture
def released(tmp_path):
    def make(rows, sizes, counts=None, columns=(0, 1, 2)):
        made.write_rows(tmp_path / "groups.parquet", rows, sizes)
        profiles.unpack(tmp_path / "groups.parquet", tmp_path / "unpacked", made.CODING.dtype)
        if counts is not None:
            made.write_support(tmp_path / "support.parquet", counts)
        support = tmp_path / "support.parquet" if counts is not None else None
        return Released(tmp_path / "unpacked", made.CODING, np.array(columns), rows.shape[1], support)

    return make


def test_lists_count_as_often_as_they_have_people(released):
    kind, found = learn(released(LISTS, SIZES))
    # item 0 with 1: two people, 1 with 2: one, 0 with 2: three
    expected = weights([[5, 2, 3], [2, 3, 1], [3, 1, 4]], ease.RIDGE)
    assert kind == "lists"
    assert found.weights == pytest.approx(expected, abs=1e-6)
    assert found.by_record(np.array([1])) == pytest.approx((expected[1] + expected[2])[None], abs=1e-6)
    history = np.array([[1, 0, 1]], np.float32)
    assert found.by_history(history) == pytest.approx((expected[0] + expected[2])[None], abs=1e-6)


def test_raters_come_before_values(released):
    """Two groups of 12 and 20, counts in threes: blank cells hold the rest of the item's raters, products count
    people."""
    counts, sizes = np.array([[3, 6, 0], [0, 3, 0]]), np.array([12, 20], np.int32)
    kind, found = learn(released(VALUES, sizes, counts))
    shares = shares_of_groups(counts, sizes, 3)
    gram = 12 * np.outer(shares[0], shares[0]) + 20 * np.outer(shares[1], shares[1])
    assert kind == "raters"
    assert found.weights == pytest.approx(weights(gram, ease.RIDGE), abs=1e-5)
    assert found.by_record(np.array([1]))[0] == pytest.approx(shares[1] @ weights(gram, ease.RIDGE), abs=1e-5)


def test_values_are_differences_from_both_levels(released):
    """Levels of the items 2, 1.75, 3.75 with three people in the second group; of the records 4 and 2."""
    kind, found = learn(released(VALUES, np.array([1, 3], np.int32)))
    levels = np.array([2, 1.75, 3.75])
    apart = VALUES - VALUES.mean(axis=1, keepdims=True) - (levels - 2.5)
    gram = np.outer(apart[0], apart[0]) + 3 * np.outer(apart[1], apart[1])
    expected = weights(gram, ease.RIDGE_OF_RATINGS)
    assert kind == "values"
    assert found.weights == pytest.approx(expected, abs=1e-5)
    both = found.by_record(np.array([1, 0]))
    assert both == pytest.approx(levels + apart[[1, 0]] @ expected, abs=1e-5)


def test_only_wanted_columns_take_part(released):
    _, found = learn(released(LISTS, SIZES, columns=(2, 0)))
    assert found.weights == pytest.approx(weights([[4, 3], [3, 5]], ease.RIDGE), abs=1e-6)


@pytest.mark.parametrize(
    "rows", [made.choices(50), made.choices(50).toarray().clip(1)], ids=["lists", "values"]
)
def test_blocks_change_nothing_but_the_last_bits(released, rows, monkeypatch):
    every = np.arange(made.ITEMS)
    whole = learn(one := released(rows, np.arange(1, 51, dtype=np.int32), columns=every))[1]
    monkeypatch.setattr(interactions, "ROWS_AT_ONCE", 7)
    assert learn(one)[1].weights == pytest.approx(whole.weights, abs=1e-6)


def test_a_rating_of_zero_is_a_choice():
    """As on Jester's scale from −10 to 10."""
    rated = sp.csr_array((np.array([0.0, 3, -2]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert learn_from_ratings(rated) == pytest.approx(weights([[1, 1], [1, 2]], ease.RIDGE), abs=1e-6)
