"""Draw discrete Gaussian noise ([Canonne2020]) by inversion of an exact table, from words of a keyed stream.

Noise in floating point is not differentially private: which numbers can occur depends on the data. Here everything is
an integer. The distribution function is tabulated with Python integers of `PRECISION` bits and rounded to 128 bits; a
draw compares two words (64 bits each) of the stream with the table. No rejection, so draw number i always uses words
2i and 2i + 1, and the result does not depend on blocks. Lemma 5 in docs/proofs/dp-synthetic.md: a draw is within
`DISTANCE` of the exact distribution in total variation.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

PRECISION = 256  # bits behind the binary point while the table is made
WORDS_PER_DRAW = 2
TAIL_BITS = 120  # a value beyond the table has a probability below 2 · 2^-TAIL_BITS
LARGEST_VARIANCE = 2**32  # 13 σ in each direction: 1,700,000 entries, made in some seconds
DISTANCE = 2.0**-100  # of a draw from the exact distribution; a bound

_ONE = 1 << PRECISION
_MARGIN = 2.0**-60  # above the low words and the tail beyond the table; far below any probability asked for
_ROUNDING = 1 + 2.0**-50  # above the rounding of a high word to a float


@dataclass(frozen=True)
class DiscreteGaussian:
    """Hold the distribution function of the integers with probability ∝ exp(−x²/2σ²), at −reach … reach − 1.

    P[X ≤ k − reach] = (high[k]·2^64 + low[k])·2^-128. At `reach` it is 1.
    """

    variance: int
    reach: int
    high: np.ndarray
    low: np.ndarray

    def draw(self, words: np.ndarray) -> np.ndarray:
        """Return one integer for every two words: the first decides, the second where the first is equal."""
        first, second = words[0::2], words[1::2]
        place = np.searchsorted(self.high, first, side="right")
        # All entries before `place` have a high word ≤ the first; those with the same one are decided by the low word.
        tied = np.flatnonzero(self.high[np.maximum(place - 1, 0)] == first)
        for one in tied:
            start = int(np.searchsorted(self.high, first[one], side="left"))
            stop = int(place[one])
            place[one] = start + int(np.searchsorted(self.low[start:stop], second[one], side="right"))
        return place.astype(np.int64) - self.reach

    def tail(self, least: int) -> float:
        """Return an upper bound on P[X ≥ least]."""
        if least <= -self.reach:
            return 1.0
        if least > self.reach:
            return _MARGIN
        return float(self.high[self.reach - least]) * 2.0**-64 * _ROUNDING + _MARGIN  # P[X ≤ −least]

    def least_with_tail(self, probability: float) -> int:
        """Return an integer x with P[X ≥ x] ≤ `probability`, the smallest for which the bound of `tail` shows it."""
        if probability <= 2 * _MARGIN:
            raise ValueError(f"the table cannot show probabilities as small as {probability:g}")
        low, high = -self.reach, self.reach + 1
        while low < high:
            middle = (low + high) // 2
            if self.tail(middle) <= probability:
                high = middle
            else:
                low = middle + 1
        return low


@lru_cache(maxsize=16)
def discrete_gaussian(variance: int) -> DiscreteGaussian:
    """Return the table for σ² = `variance`, an integer of at least 1."""
    if not 1 <= variance <= LARGEST_VARIANCE:
        raise ValueError(f"the variance {variance} is not between 1 and {LARGEST_VARIANCE}")
    weights = _weights(variance)
    reach = len(weights) - 1
    total = weights[0] + 2 * sum(weights[1:])
    reciprocal = (
        1 << (PRECISION + 192)
    ) // total  # 64 bits more than needed; a product is faster than a quotient
    entries, sum_so_far = [], 0
    for weight in reversed(weights[1:]):  # −reach … −1
        sum_so_far += weight
        # At least 1, since 2^128 minus it must fit into 128 bits.
        entries.append(max(1, sum_so_far * reciprocal >> (PRECISION + 64)).to_bytes(16, "big"))
    words = np.frombuffer(b"".join(entries), ">u8").astype(np.uint64)
    high, low = words[0::2], words[1::2]
    # P[X ≤ k] = 1 − P[X ≤ −k − 1]: the upper half is 2^128 minus the lower one, in reverse order.
    carry = (low == 0).astype(np.uint64)
    upper_high, upper_low = (~high + carry)[::-1], (~low + np.uint64(1))[::-1]
    return DiscreteGaussian(
        variance, reach, np.concatenate([high, upper_high]), np.concatenate([low, upper_low])
    )


def _weights(variance: int) -> list[int]:
    """Return exp(−x²/2σ²) · 2^PRECISION for x = 0 … reach, by w(x+1) = w(x)·r(x), r(x+1) = r(x)·exp(−1/σ²)."""
    reach = math.ceil(math.sqrt(2 * math.log(2) * TAIL_BITS * variance)) + 1
    step, ratio = _exp_of_minus_reciprocal(variance), _exp_of_minus_reciprocal(2 * variance)
    found = [_ONE]
    for _ in range(reach):
        found.append(found[-1] * ratio >> PRECISION)
        ratio = ratio * step >> PRECISION
    return found


def _exp_of_minus_reciprocal(denominator: int) -> int:
    """Return exp(−1/denominator) · 2^PRECISION by its series: the terms are exact but for their last bits."""
    total, term, k = 0, _ONE, 0
    while term:
        total += term if k % 2 == 0 else -term
        k += 1
        term //= denominator * k
    return total
