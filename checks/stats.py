"""Compute risks from counts: all confidence intervals and residuals over a baseline.

All intervals take their width from one place (`interval_z`). Whoever tries seeds, secrets or settings until a release
passes has as many chances as attempts; so the gate computes intervals of 1 − 0.05 / attempts instead of 95 %
(Bonferroni). The number is a context variable that only `corrected_for` sets and resets: it cannot leak into another
run, and no check has to hand it on. A `Risk` keeps the width it was made with, because its interval is read later. A
bound that must *show* harm before a release is refused (a lower end) keeps 95 % (`Risk.uncorrected`): widening it would
make passing easier.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numba import njit
from scipy.stats import beta, binom, norm, rankdata

Z95 = 1.959963984540054
FALSE_ALARM = 0.05  # chance of exposing anybody at all by luck, however many people and attempts are examined
EXPOSED_FROM = 0.5  # gain over luck beyond which an attacker is more often right about a person than wrong
MOST_FOR_EXACT_ORDER = 200
FEWEST_NEIGHBOURS = 1_000
ERROR_SHARE = 0.05  # of intervals that miss the true figure, over all attempts together

_ATTEMPTS: ContextVar[int] = ContextVar("attempts", default=1)


@contextlib.contextmanager
def corrected_for(attempts: int) -> Iterator[None]:
    """Widen every interval computed inside for the number of attempts at the same snapshot."""
    token = _ATTEMPTS.set(max(1, attempts))
    try:
        yield
    finally:
        _ATTEMPTS.reset(token)


def attempts_so_far() -> int:
    """Return the number of attempts that intervals are widened for."""
    return _ATTEMPTS.get()


def error_share(attempts: int | None = None) -> float:
    """Return how many of the intervals may miss the true figure: 0.05, shared among the attempts."""
    return ERROR_SHARE / max(1, attempts_so_far() if attempts is None else attempts)


def interval_z() -> float:
    """Return the half-width of intervals, in standard deviations."""
    return Z95 if attempts_so_far() == 1 else float(norm.isf(error_share() / 2))


def wilson(successes: float, n: float, z: float | None = None) -> tuple[float, float]:
    """Return the Wilson score interval of a share; (0, 1) without any trial."""
    if n <= 0:
        return 0.0, 1.0
    z = interval_z() if z is None else z
    share = successes / n
    centre = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def difference(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return Newcombe's interval of the difference of two shares, each given as (successes, trials)."""
    first, second = (successes / n if n else 0.0 for successes, n in (one, other))
    (low_1, high_1), (low_2, high_2) = wilson(*one), wilson(*other)
    between = first - second
    low = between - math.hypot(first - low_1, high_2 - second)
    high = between + math.hypot(high_1 - first, second - low_2)
    return max(-1.0, low), min(1.0, high)


def weighted_sum(
    shares: Sequence[tuple[float, float]], weights: Sequence[float], z: float | None = None
) -> tuple[float, float]:
    """Return the interval of Σ weight · share for independent shares, each given as (successes, trials), and positive
    weights: the Wilson intervals are combined as in Newcombe's difference (MOVER, [Zou2008])."""
    centre, below, above = 0.0, 0.0, 0.0
    for (successes, n), weight in zip(shares, weights, strict=True):
        share = successes / n if n else 0.0
        low, high = wilson(successes, n, z)
        centre += weight * share
        below += (weight * (share - low)) ** 2
        above += (weight * (high - share)) ** 2
    return centre - math.sqrt(below), centre + math.sqrt(above)


def ratio_interval(
    numerator: float, denominator: float, spread: np.ndarray, z: float
) -> tuple[float | None, float | None]:
    """Return Fieller's interval of a ratio ([Fieller1954]): all r for which numerator − r · denominator may be 0.

    `spread` is the covariance matrix of the two. Where the denominator is not shown to differ from 0, the interval has
    no end on at least one side, and (None, None) is returned.
    """
    square = denominator**2 - z**2 * spread[1, 1]
    middle = numerator * denominator - z**2 * spread[0, 1]
    if square <= 0:
        return None, None
    root = math.sqrt(max(0.0, middle**2 - square * (numerator**2 - z**2 * spread[0, 0])))
    return (middle - root) / square, (middle + root) / square


def shown_above(numerator: float, denominator: float, limit: float, spread: np.ndarray, z: float) -> bool:
    """Return whether numerator − limit · denominator is shown to be above 0: the ratio exceeds the limit, also where
    its denominator is too uncertain for an interval."""
    excess = numerator - limit * denominator
    variance = spread[0, 0] - 2 * limit * spread[0, 1] + limit**2 * spread[1, 1]
    return excess - z * math.sqrt(max(0.0, variance)) > 0


def residual(risk: float, baseline: float) -> float:
    """Return the part of a risk that the release causes: (r − r₀)/(1 − r₀), or 0 for a baseline r₀ of 1."""
    return (risk - baseline) / (1 - baseline) if baseline < 1 else 0.0


def chance_of_order(order: np.ndarray, values: np.ndarray, draw: np.random.Generator) -> float:
    """Return how likely a random order follows these values, or their reverse, as closely as this one does.

    With few values by the exact distribution of Kendall's inversions, equal values in an order drawn by chance; with
    more, by Spearman's correlation, whose variance over all orders is exactly 1 / (n − 1) and whose tails are thinner
    than the normal distribution's: the answer is never too small.
    """
    n = len(order)
    if n < 2 or (values == values[0]).all():
        return 1.0
    place = np.lexsort((draw.random(n), order))
    if n <= MOST_FOR_EXACT_ORDER:
        rank = np.empty(n, np.int64)
        rank[np.lexsort((draw.random(n), values))] = np.arange(n)
        apart = rank[place]
        inversions = int(np.triu(apart[:, None] > apart[None, :]).sum())
        extreme = min(inversions, n * (n - 1) // 2 - inversions)
        return min(1.0, 2 * float(_inversion_chances(n)[extreme]))
    r = np.corrcoef(np.arange(n), rankdata(values)[place])[0, 1]
    return float(2 * norm.sf(abs(r) * math.sqrt(n - 1)))


def chance_of_neighbours(order: np.ndarray, values: np.ndarray, draw: np.random.Generator) -> float:
    """Return how likely neighbours in a random order have values as alike, or unlike, as in this one ([Wald1943]).

    It finds numbers given block by block, with the blocks in a random order. The normal distribution serves for
    thousands of values, and its tail is doubled, because that of sums of products is slightly heavier; with fewer
    values nothing is tested (1).
    """
    n = len(order)
    if n < FEWEST_NEIGHBOURS or (values == values[0]).all():
        return 1.0
    x = rankdata(values)[np.lexsort((draw.random(n), order))] - (n + 1) / 2
    squares, fourth = float((x**2).sum()), float((x**4).sum())
    mean = -squares / (n - 1)
    variance = (squares**2 - fourth) / (n - 1) + (squares**2 - 2 * fourth) / ((n - 1) * (n - 2)) - mean**2
    z = (float(x @ np.roll(x, 1)) - mean) / math.sqrt(variance)
    return min(1.0, 4 * float(norm.sf(abs(z))))


@cache
def _inversion_chances(n: int) -> np.ndarray:
    """Return the chance that a random order of n has at most so many inversions, for every number of them."""
    chances = np.ones(1)
    for count in range(2, n + 1):  # the next element causes 0 … count − 1 inversions, each as likely
        sums = np.concatenate([np.zeros(1), np.cumsum(np.concatenate([chances, np.zeros(count - 1)]))])
        first = np.maximum(np.arange(len(sums) - 1) - count + 1, 0)
        chances = (sums[1:] - sums[first]) / count
    return np.minimum(np.cumsum(chances), 1.0)


def beyond_chance(successes: int, n: int, chance: float) -> bool:
    """Return True when chance alone gives this many successes less than once in a million times."""
    return bool(binom.sf(successes - 1, n, chance) < 1e-6)


def sample_size(half_width: float, z: float = Z95) -> int:
    """Return the number of trials after which no share's interval is wider than ± `half_width`."""
    return math.ceil((z / (2 * half_width)) ** 2)


@dataclass(frozen=True)
class Risk:
    """Represent a success rate with its interval and the rate that is reached without the release (the baseline).

    The baseline is NaN when it was not measured. `ceiling` is the maximum that one trial can count: finding a
    group of five identifies one of its members with a probability of 1/5, so a trial counts 0 to 1/5 and the interval
    is computed for the trials' share of the ceiling. `z` is the half-width of the interval in standard deviations.
    """

    successes: float
    n: int
    baseline: float = 0.0
    ceiling: float = 1.0
    z: float = field(default_factory=interval_z)

    @property
    def uncorrected(self) -> "Risk":
        """Return the same risk with the 95 % interval of a single attempt, for bounds that must show harm."""
        return replace(self, z=Z95)

    @property
    def rate(self) -> float:
        """Return the share of successes (0 without any trial)."""
        return self.successes / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the Wilson interval of the rate."""
        low, high = wilson(self.successes / self.ceiling, self.n, self.z)
        return low * self.ceiling, high * self.ceiling

    @property
    def gain(self) -> float:
        """Return the rate above the baseline as a share of what the baseline leaves: (rate − r₀)/(1 − r₀)."""
        return residual(self.rate, self.baseline) if self.n else 0.0

    @property
    def gain_interval(self) -> tuple[float, float]:
        """Return the interval of the rate on the scale of the gain."""
        low, high = self.interval
        return residual(low, self.baseline), residual(high, self.baseline)


def correlation(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Return Pearson's r with Fisher's interval; (0, 0, 0) when one side is constant."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0, 0.0, 0.0
    r = float(np.corrcoef(x, y)[0, 1])
    if len(x) <= 3:
        return r, -1.0, 1.0
    centre, spread = math.atanh(max(-0.999999, min(0.999999, r))), interval_z() / math.sqrt(len(x) - 3)
    return r, math.tanh(centre - spread), math.tanh(centre + spread)


def runs(owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the owners of consecutive entries in order, and the bounds of each owner's entries."""
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if len(owner) else np.zeros(0, np.int64)
    return owner[first], np.append(first, len(owner))


@njit(cache=True, nogil=True)
def correlations(starts, x, y):  # type: ignore[no-untyped-def]
    """Compute Pearson's r over the pairs of each run; 0 when one side is constant."""
    out = np.zeros(len(starts) - 1)
    for run in range(len(out)):
        first, last = starts[run], starts[run + 1]
        n = last - first
        mean_x, mean_y, xx, yy, xy = 0.0, 0.0, 0.0, 0.0, 0.0
        for p in range(first, last):
            mean_x += x[p]
            mean_y += y[p]
        mean_x /= max(n, 1)
        mean_y /= max(n, 1)
        for p in range(first, last):
            dx, dy = x[p] - mean_x, y[p] - mean_y
            xx += dx * dx
            yy += dy * dy
            xy += dx * dy
        spread = math.sqrt(xx * yy)
        if spread > 1e-9 * max(n, 1):  # smaller: rounding errors of equal values
            out[run] = xy / spread
    return out


def fisher_low(r: np.ndarray, n: np.ndarray, z: float | None = None) -> np.ndarray:
    """Return the lower end of Fisher's interval of each r; −1 with three pairs or fewer."""
    z = interval_z() if z is None else z
    inside = np.arctanh(np.clip(r, -0.999999, 0.999999))
    return np.where(n > 3, np.tanh(inside - z / np.sqrt(np.maximum(n - 3, 1))), -1.0)


def clustered(successes: np.ndarray, trials: np.ndarray, baseline: float) -> Risk:
    """Return the success rate over trials that are clustered by target (one array entry per target).

    The trials count as the number of independent trials with the same uncertainty as the differences between targets
    (effective sample size, [Kish1965]): at most the trials that were made, and the number of targets when targets do
    not differ at all.
    """
    tried, n = int((trials > 0).sum()), float(trials.sum())
    if not tried:
        return Risk(0.0, 0, baseline)
    rate = float(successes.sum()) / n
    spread = float(((successes - rate * trials) ** 2).sum()) * tried / max(1, tried - 1) / n**2
    alike = spread <= 0 or not 0 < rate < 1
    effective = tried if alike else max(1, min(int(n), int(rate * (1 - rate) / spread)))
    return Risk(rate * effective, effective, baseline)


def chance_of_each(tests: int) -> float:
    """Return the chance of a false alarm that each of several tests may have, so that all of them together keep
    FALSE_ALARM (Bonferroni)."""
    return FALSE_ALARM / max(1, tests)


@dataclass(frozen=True)
class Tally:
    """Hold per person (or per group of people) how often an attempt was right, out of how many trials, and how many
    would be right by luck."""

    hits: np.ndarray
    trials: np.ndarray
    luck: np.ndarray

    @property
    def tested(self) -> int:
        """Number of people with a trial."""
        return int((self.trials > 0).sum())

    def gain_low(self, tests: int) -> np.ndarray:
        """Return the lower bound (Clopper and Pearson) of the gain over luck, as one of this many tests; 0 without any
        trial.

        Trials may differ in their chance of success: the sum of unequal trials varies less than that of equal ones
        with the same mean, so the bound still holds.
        """
        some = self.hits > 0
        low = np.zeros(len(self.hits))
        # Of people with as many hits and trials it is the same, and there are few different ones.
        pairs, number = np.unique(self.hits[some] + 1j * self.trials[some], return_inverse=True)
        bounds = np.asarray(beta.ppf(chance_of_each(tests), pairs.real, pairs.imag - pairs.real + 1))
        low[some] = bounds[number]
        by_luck = np.minimum(self.luck / np.maximum(self.trials, 1), 1)
        return np.divide(low - by_luck, 1 - by_luck, out=np.zeros(len(low)), where=by_luck < 1)


def gains_low(tallies: Sequence[Tally]) -> list[np.ndarray]:
    """Return the lower bounds of all gains, which hold together for everybody in all tallies."""
    tests = sum(tally.tested for tally in tallies)
    return [tally.gain_low(tests) for tally in tallies]


def find_exposed(tallies: Sequence[Tally]) -> np.ndarray:
    """Mark the people, or groups, that any of the attempts exposes: certainly more than half right beyond luck, the
    share from which raw data count as broken.

    Averages hide a few people whose values are hardly disguised among many whose values are, so everybody is examined.
    Chance must not expose a person, however many people and attempts there are: the bound is simultaneous, 95 % over
    all of them together. It takes about sixteen claims, all of them right.
    """
    return np.logical_or.reduce([low > EXPOSED_FROM for low in gains_low(tallies)])
