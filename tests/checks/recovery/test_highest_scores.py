"""Test that the highest scores of a release, and of each group, are kept whatever the blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from checks.recovery.highest_scores import HighestScores

ITEMS = 12


def collect(scores, closed, items, blocks, size, of_each, *, either_sign=False):
    """Return what is kept of a table of scores that comes in these blocks."""
    kept = HighestScores(size, of_each)
    for start, stop in blocks:
        first_keys = np.arange(start, stop, dtype=np.int64) * ITEMS
        kept.add(scores[start:stop], closed[start:stop], first_keys, items, either_sign=either_sign)
    return kept


def sort_all(scores, closed, items, size, of_each, *, either_sign=False):
    """Return the same by sorting all cells: best first, of equal ones the first."""
    value = np.abs(scores) if either_sign else scores
    keys = np.arange(len(scores))[:, None] * ITEMS + items
    every = sorted((-v, k) for v, k in zip(value[~closed], keys[~closed], strict=True))
    rows = [
        sorted((-v, k) for v, k in zip(value[n][~closed[n]], keys[n][~closed[n]], strict=True))
        for n in range(len(scores))
    ]
    own = [[k for _, k in row[:of_each]] + [-1] * (of_each - len(row)) for row in rows]
    return [k for _, k in every[:size]], own


def test_four_cells():
    """Of 4 cells, one closed, the two highest: 0.9 in group 1, item 7, then 0.5 in group 0, item 3."""
    scores = np.array([[0.5, 0.1], [0.7, 0.9]], np.float32)
    closed = np.array([[False, False], [True, False]])
    kept = collect(scores, closed, np.array([3, 7]), [(0, 2)], 2, 2)
    assert kept.keys.tolist() == [ITEMS + 7, 3]
    assert kept.of_groups.tolist() == [[3, 7], [ITEMS + 7, -1]]


def test_either_sign():
    """The size counts: −3 is higher than 2."""
    kept = collect(
        np.array([[2, -3]], np.float32),
        np.zeros((1, 2), bool),
        np.array([0, 1]),
        [(0, 1)],
        1,
        0,
        either_sign=True,
    )
    assert kept.keys.tolist() == [1]
    assert kept.of_groups.size == 0


@given(
    scores=arrays.arrays(np.float32, (7, 5), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])),
    closed=arrays.arrays(bool, (7, 5)),
    cut=st.integers(0, 7),
    size=st.integers(1, 9),
    of_each=st.integers(0, 4),
    either_sign=st.booleans(),
)
def test_equals_sorting(scores, closed, cut, size, of_each, either_sign):
    """The same cells as by sorting, in the same order, of equal scores the first, however the groups are cut."""
    items = np.array([0, 2, 3, 8, 11])
    kept = collect(scores, closed, items, [(0, cut), (cut, 7)], size, of_each, either_sign=either_sign)
    keys, own = sort_all(scores, closed, items, size, of_each, either_sign=either_sign)
    assert kept.keys.tolist() == keys
    assert not of_each or kept.of_groups.tolist() == own


@pytest.mark.parametrize("values", ["different", "mostly equal", "mostly closed"])
def test_many_scores(values):
    """A full heap keeps the highest of fifty thousand."""
    random = np.random.default_rng(3)
    scores = random.normal(size=(4_000, ITEMS)).astype(np.float32)
    closed = random.random(scores.shape) < (0.99 if values == "mostly closed" else 0.1)
    if values == "mostly equal":
        scores[40:] = 9
    kept = collect(scores, closed, np.arange(ITEMS), [(0, 1_000), (1_000, 4_000)], 100, 0)
    order = np.lexsort((np.flatnonzero(~closed), -scores[~closed]))
    assert kept.keys.tolist() == np.flatnonzero(~closed)[order][:100].tolist()
