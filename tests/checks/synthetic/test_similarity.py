"""Test how near rows and people are, by hand and against plain loops."""

import numpy as np
import scipy.sparse as sp

from checks.synthetic.similarity import nearest, pairs_of

LEVELS = np.arange(1.0, 6.0)


def records(*tables):
    return sp.csr_array(np.array(tables, np.float32))


def test_by_hand():
    """Two of three pairs of the union are common in the first case; the rating 3.4 counts as 3."""
    some = pairs_of(records([3.4, 5, 0, 1], [0, 0, 2, 0]), LEVELS)
    among = pairs_of(records([3, 5, 0, 0], [3, 4, 0, 1]), LEVELS)
    assert nearest(some, among).tolist() == [np.float32(2 / 3), 0.0]


def test_an_empty_side():
    some = pairs_of(records([3, 5]), LEVELS)
    assert nearest(some, some.take(np.zeros(0, np.int64))).tolist() == [0.0]


def test_the_same_as_plain_loops():
    draw = np.random.default_rng(2)
    one, other = (draw.integers(0, 6, (n, 30)) * (draw.random((n, 30)) < 0.4) for n in (700, 40))
    found = nearest(*(pairs_of(sp.csr_array(side.astype(np.float32)), LEVELS) for side in (one, other)))
    for row in (0, 300, 699):
        best = 0.0
        for record in other:
            common = int(((one[row] == record) & (record > 0)).sum())
            either = int((one[row] > 0).sum() + (record > 0).sum()) - common
            best = max(best, common / max(1, either))
        assert np.isclose(found[row], best)
