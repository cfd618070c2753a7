"""Test the sums of bounded contributions: a case by hand, and the sensitivity of every part on random neighbours."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels import bounded_sums as bounded
from tasks.kernels.bounded_sums import Limits

SCALE = (1.0, 5.0)
ITEMS = 40


def limits(weight: int = 2, resolution: int = 6, items: int = ITEMS) -> Limits:
    """Return small limits."""
    return Limits(weight, SCALE, resolution, resolution, resolution, bounded.length_edges(items))


class TestByHand:
    """Three people and three items; c = 2 and S = 6, so a person with three items counts 4 of 6."""

    rows = sp.csr_array(np.array([[5.0, 1, 0], [3, 3, 3], [0, 0, 0]]))

    def test_sums(self):
        found = bounded.sums(self.rows, np.array([0, 1, 2]), limits(items=3))
        assert found.pairs.tolist() == [[10, 10, 4], [10, 10, 4], [4, 4, 4]]
        assert found.ratings.tolist() == [6 * 8 + 4 * 0, 6 * -8, 0]
        assert found.lengths.tolist() == [1, 0, 1, 1]  # nobody with one item
        assert np.flatnonzero(found.means).tolist() == [8]
        assert found.means[8] == 2
        assert {int(k) - 8: int(found.levels[k]) for k in np.flatnonzero(found.levels)} == {-8: 3, 0: 6, 8: 3}

    def test_chosen_items_alone_count(self):
        found = bounded.sums(self.rows, np.array([2]), limits(items=1))
        assert found.pairs.tolist() == [[6]]
        assert found.lengths.tolist() == [2, 1]

    def test_choice(self):
        """Weights are ⌊√(256²/2)⌋ = 181 and ⌊√(256²/3)⌋ = 147."""
        assert bounded.choice_sums(self.rows).tolist() == [181 + 147, 181 + 147, 147]

    def test_blocks_add_up(self):
        whole = bounded.sums(self.rows, np.array([0, 2]), limits(items=2))
        parts = [
            bounded.sums(sp.csr_array(self.rows[some]), np.array([0, 2]), limits(items=2))
            for some in (slice(0, 1), slice(1, 3))
        ]
        total = parts[0] + parts[1]
        assert all(np.array_equal(getattr(total, name), getattr(whole, name)) for name in vars(whole))

    def test_ratings_are_bounded_whatever_they_are(self):
        given = np.array([1, 3, 5, 4.4, -1e9, 1e9, np.nan, np.inf])
        found = bounded.centred(given, SCALE)
        assert found[:4].tolist() == [-8, 0, 8, 6]
        assert np.abs(found).max() == 8


def exact_pairs_bound(items: int, resolution: int, limit: int) -> int:
    """Return the bound by trying every number of items, in Python's integers."""
    found = 0
    for n in range(1, items + 1):
        weight = resolution if n <= limit else resolution * limit // n
        found = max(found, weight**2 * n * (n + 1) // 2)
    return found


class TestBounds:
    @pytest.mark.parametrize("limit", [1, 3, 10, 50])
    @pytest.mark.parametrize("resolution", [1, 7, 1024])
    def test_pairs(self, limit, resolution):
        assert bounded.pairs_bound(60, resolution, limit) == exact_pairs_bound(60, resolution, limit)

    def test_no_overflow(self):
        assert bounded.pairs_bound(20_000, 4096, 1000) == exact_pairs_bound(20_000, 4096, 1000)

    def test_choice_weight_is_exact(self):
        """⌊√(S²/n)⌋ for every n up to S² and beyond."""
        count = np.arange(1, 70_000)
        weight, square = bounded.choice_weight(count), bounded.CHOICE_RESOLUTION**2
        assert np.all(count * weight**2 <= square)
        assert np.all(count * (weight + 1) ** 2 > square)
        assert bounded.choice_weight(np.array([square, square + 1])).tolist() == [1, 0]

    def test_too_fine_resolutions_are_refused(self):
        """Beyond it float32 sums over blocks of rows would not be exact."""
        assert bounded.ROWS_AT_ONCE * bounded.LARGEST_RESOLUTION < 2**24
        with pytest.raises(ValueError, match="resolution"):
            limits(resolution=5000)


def people(most: int) -> st.SearchStrategy[sp.csr_array]:
    """Return matrices of up to `most` people: some without ratings, some with every item."""
    row = st.one_of(
        st.just({}),
        st.just(dict.fromkeys(range(ITEMS), 5.0)),
        st.dictionaries(st.integers(0, ITEMS - 1), st.sampled_from([0.0, 1.0, 2.5, 5.0, 99.0]), max_size=8),
    )

    def matrix(rows: list[dict[int, float]]) -> sp.csr_array:
        ends = np.cumsum([0, *map(len, rows)])
        items = np.array([item for one in rows for item in sorted(one)], np.int32)
        values = np.array([one[item] for one in rows for item in sorted(one)], np.float32)
        return sp.csr_array((values, items, ends), shape=(len(rows), ITEMS))

    return st.lists(row, min_size=0, max_size=most).map(matrix)


def squared(one: np.ndarray, other: np.ndarray) -> int:
    """Return the squared norm of a difference, in Python's integers."""
    return sum(int(x) ** 2 for x in (one - other).ravel())


class TestSensitivity:
    """Add one person to random data: no sum changes by more than its bound (Lemmas 1 to 4)."""

    @settings(max_examples=150)
    @given(people(5), people(1), st.integers(1, 12), st.sampled_from([1, 7, 64, 1024]), st.integers(1, ITEMS))
    def test_every_part(self, rows, one, weight, resolution, items):
        if one.shape[0] == 0:
            one = sp.csr_array((1, ITEMS), dtype=np.float32)
        more = sp.csr_array(sp.vstack([rows, one], format="csr"))
        columns = np.arange(items)
        allowed = limits(weight, resolution, items)
        before, after = (bounded.sums(data, columns, allowed) for data in (rows, more))
        upper = np.triu_indices(items)
        pairs = bounded.pairs_bound(items, resolution, weight)
        assert squared(after.pairs[upper], before.pairs[upper]) <= pairs
        ratings = bounded.ratings_bound(items, resolution, weight)
        assert squared(after.ratings, before.ratings) <= ratings
        assert squared(after.lengths, before.lengths) == 1
        assert squared(after.means, before.means) <= 1
        assert squared(after.levels, before.levels) <= resolution**2
        choice = squared(bounded.choice_sums(more), bounded.choice_sums(rows))
        assert choice <= bounded.CHOICE_RESOLUTION**2

    def test_the_bound_is_reached(self):
        """A person with exactly c items changes the pairs by the bound: it cannot be lowered."""
        one = sp.csr_array(np.array([[1.0] * 3 + [0.0] * 7]))
        found = bounded.sums(one, np.arange(10), limits(weight=3, resolution=5, items=10))
        upper = np.triu_indices(10)
        assert squared(found.pairs[upper], np.zeros(55)) == bounded.pairs_bound(10, 5, 3) == 25 * 6

    def test_a_repeated_item_counts_once(self):
        """Rows that hold an item twice are made distinct, so that they contribute no more than others."""
        once = sp.csr_array((np.array([4.0, 5.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
        twice = sp.csr_array((np.array([2.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
        assert not twice.has_canonical_format
        expected, found = (bounded.sums(one, np.arange(2), limits(items=2)) for one in (once, twice))
        assert all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in vars(found))
        assert np.array_equal(bounded.choice_sums(twice), bounded.choice_sums(once))
