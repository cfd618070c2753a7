"""Test the tables and the sampler of discrete Gaussian noise against decimal arithmetic and the exact distribution."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy.stats import chisquare

from tasks.kernels.discrete_gaussian import (
    DISTANCE,
    LARGEST_VARIANCE,
    TAIL_BITS,
    DiscreteGaussian,
    discrete_gaussian,
)
from tasks.keys import OwnerKey

getcontext().prec = 70
SIZES = [1, 2, 9, 400, 10_000]


def words(count: int, purpose: str = "test") -> np.ndarray:
    """Return words of a keyed stream."""
    return OwnerKey(b"n" * 32).noise("discrete gaussian").words(purpose, count)


def exact(variance: int, reach: int) -> list[Decimal]:
    """Return the probabilities of 0 … reach, computed term by term; what is beyond is too small for 70 digits."""
    weights = [(Decimal(-x * x) / (2 * variance)).exp() for x in range(2 * reach)]
    total = weights[0] + 2 * sum(weights[1:])
    return [weight / total for weight in weights[: reach + 1]]


def cumulative(table: DiscreteGaussian) -> list[Decimal]:
    """Return the table's P[X ≤ k] for k = −reach … reach − 1."""
    return [
        Decimal((int(high) << 64) + int(low)) / 2**128
        for high, low in zip(table.high, table.low, strict=True)
    ]


class TestTable:
    @pytest.mark.parametrize("variance", SIZES[:4])
    def test_total_variation_is_below_the_bound(self, variance):
        """Half the sum of the differences of all probabilities, the tail beyond the table included (Lemma 5)."""
        table = discrete_gaussian(variance)
        ends = [*cumulative(table), Decimal(1)]
        found = [after - before for before, after in zip([Decimal(0), *ends[:-1]], ends, strict=True)]
        true = exact(variance, table.reach)
        wanted = [true[abs(x)] for x in range(-table.reach, table.reach + 1)]
        differences = sum((abs(one - other) for one, other in zip(found, wanted, strict=True)), Decimal(0))
        assert differences / 2 + (1 - sum(wanted)) < Decimal(DISTANCE) / 1000

    @pytest.mark.parametrize("variance", SIZES)
    def test_sums_to_one_and_is_symmetric(self, variance):
        ends = cumulative(discrete_gaussian(variance))
        assert ends == sorted(ends)
        assert 1 - Decimal(2) ** (1 - TAIL_BITS) < ends[-1] < 1
        unit = Decimal(2) ** -128
        assert all(
            abs(left + right - 1) <= 2 * unit for left, right in zip(ends, reversed(ends), strict=True)
        )

    @pytest.mark.parametrize("variance", SIZES[:4])
    def test_tails(self, variance):
        """The bound is above the exact tail, and by no more than its margin; the quantile is the least one."""
        table, true = discrete_gaussian(variance), exact(variance, discrete_gaussian(variance).reach)
        for least in {1, 2, round(variance**0.5 * 3), round(variance**0.5 * 6)}:
            tail = sum(true[least:], Decimal(0))
            assert tail <= Decimal(table.tail(least)) <= tail * (1 + Decimal(2) ** -49) + Decimal(2) ** -59
        for probability in (0.3, 1e-3, 1e-9):
            found = table.least_with_tail(probability)
            assert sum(true[found:], Decimal(0)) <= Decimal(probability)
            assert (
                sum(true[found - 1 :], Decimal(0))
                > Decimal(probability) * (1 - Decimal(2) ** -49) - Decimal(2) ** -59
            )

    def test_beyond_the_table(self):
        table = discrete_gaussian(1)
        assert table.tail(-1000) == 1
        assert 0 < table.tail(1000) < 1e-15

    def test_refusals(self):
        for variance in (0, LARGEST_VARIANCE + 1):
            with pytest.raises(ValueError, match="not between"):
                discrete_gaussian(variance)
        with pytest.raises(ValueError, match="as small as"):
            discrete_gaussian(1).least_with_tail(1e-30)


class TestDraws:
    @pytest.mark.parametrize("variance", [1, 9, 100])
    def test_distribution(self, variance):
        """Chi-square against the exact probabilities; values expected fewer than ten times are put together."""
        draws = 200_000
        found = discrete_gaussian(variance).draw(words(2 * draws))
        true = [float(p) for p in exact(variance, discrete_gaussian(variance).reach)]
        edge = max(x for x, p in enumerate(true) if draws * p >= 10)
        middle = np.arange(-edge, edge + 1)
        observed = [np.sum(found == x) for x in middle]
        expected = [draws * true[abs(x)] for x in middle]
        observed = [*observed, np.sum(np.abs(found) > edge)]
        expected = [*expected, draws - sum(expected)]
        assert chisquare(observed, expected).pvalue > 1e-4

    def test_biased_words_are_noticed(self):
        """The chi-square test above can fail: with one word in fifty replaced it does."""
        drawn = words(2 * 200_000).copy()
        drawn[::100] = 1 << 63
        found = discrete_gaussian(9).draw(drawn)
        true = [float(p) for p in exact(9, discrete_gaussian(9).reach)]
        expected = np.array([200_000 * true[abs(x)] for x in range(-9, 10)])
        observed = np.array([np.sum(found == x) for x in range(-9, 10)])
        assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue < 1e-10

    def test_by_hand(self):
        """Four values −2 … 1: equal first words are decided by the second."""
        table = DiscreteGaussian(1, 2, np.array([5, 5, 7], "<u8"), np.array([3, 9, 0], "<u8"))
        pairs = {(4, 99): -2, (5, 2): -2, (5, 3): -1, (5, 8): -1, (5, 9): 0, (6, 0): 0, (7, 0): 1, (8, 0): 1}
        given = np.array([word for pair in pairs for word in pair], "<u8")
        assert table.draw(given).tolist() == list(pairs.values())

    def test_blocks_do_not_matter(self):
        drawn, table = words(2000), discrete_gaussian(400)
        parts = [table.draw(drawn[:600]), table.draw(drawn[600:])]
        assert np.array_equal(np.concatenate(parts), table.draw(drawn))

    def test_streams_belong_to_secret_purpose_and_names(self):
        key = OwnerKey(b"n" * 32)
        streams = [
            key.noise("a").words("p", 8),
            key.noise("b").words("p", 8),
            key.noise("a").words("q", 8),
            OwnerKey(b"m" * 32).noise("a").words("p", 8),
        ]
        assert len({stream.tobytes() for stream in streams}) == 4
        assert np.array_equal(streams[0], OwnerKey(b"n" * 32).noise("a").words("p", 16)[:8])
