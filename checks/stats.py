"""From counts to risks: the one place where intervals and baselines are computed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.stats import binom

Z95 = 1.959963984540054


def wilson(successes: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a share; (0, 1) when nothing was tried."""
    if n <= 0:
        return 0.0, 1.0
    share = successes / n
    centre = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def difference(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Newcombe's interval of the difference of two shares, each given as (successes, trials)."""
    first, second = (successes / n if n else 0.0 for successes, n in (one, other))
    (low_1, high_1), (low_2, high_2) = wilson(*one), wilson(*other)
    between = first - second
    low = between - math.hypot(first - low_1, high_2 - second)
    high = between + math.hypot(high_1 - first, second - low_2)
    return max(-1.0, low), min(1.0, high)


def weighted_sum(
    shares: Sequence[tuple[float, float]], weights: Sequence[float], z: float = Z95
) -> tuple[float, float]:
    """Interval of Σ weight · share for independent shares, each given as (successes, trials), and positive weights:
    the Wilson intervals put together as Newcombe's difference does (MOVER, Zou and Donner 2008)."""
    centre, below, above = 0.0, 0.0, 0.0
    for (successes, n), weight in zip(shares, weights, strict=True):
        share = successes / n if n else 0.0
        low, high = wilson(successes, n, z)
        centre += weight * share
        below += (weight * (share - low)) ** 2
        above += (weight * (high - share)) ** 2
    return centre - math.sqrt(below), centre + math.sqrt(above)


def residual(risk: float, baseline: float) -> float:
    """The part of a risk that the release is to blame for: (r − r₀)/(1 − r₀), 0 where r₀ leaves no room."""
    return (risk - baseline) / (1 - baseline) if baseline < 1 else 0.0


def beyond_chance(successes: int, n: int, chance: float) -> bool:
    """True when so many successes would come by chance less than once in a million times."""
    return bool(binom.sf(successes - 1, n, chance) < 1e-6)


def sample_size(half_width: float, z: float = Z95) -> int:
    """Trials after which no share's interval is wider than ± this."""
    return math.ceil((z / (2 * half_width)) ** 2)


@dataclass(frozen=True)
class Risk:
    """A success rate with its interval and, where there is one, the rate to be had without the release.

    The baseline is not a number where none was measured. `ceiling` is the most that one trial can count: finding a
    group of five names one of its members with a chance of 1/5, so a trial counts 0 to 1/5 and the interval is that
    of the trials' share of the ceiling.
    """

    successes: float
    n: int
    baseline: float = 0.0
    ceiling: float = 1.0

    @property
    def rate(self) -> float:
        """Share of successes (0 when nothing was tried)."""
        return self.successes / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson interval of the rate."""
        low, high = wilson(self.successes / self.ceiling, self.n)
        return low * self.ceiling, high * self.ceiling

    @property
    def gain(self) -> float:
        """The rate above the baseline, as a share of the room above the baseline."""
        return residual(self.rate, self.baseline) if self.n else 0.0

    @property
    def gain_interval(self) -> tuple[float, float]:
        """The rate's interval on the scale of the gain."""
        low, high = self.interval
        return residual(low, self.baseline), residual(high, self.baseline)


def correlation(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Pearson's r with Fisher's 95 % interval; (0, 0, 0) when one side does not vary at all."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0, 0.0, 0.0
    r = float(np.corrcoef(x, y)[0, 1])
    if len(x) <= 3:
        return r, -1.0, 1.0
    centre, spread = math.atanh(max(-0.999999, min(0.999999, r))), Z95 / math.sqrt(len(x) - 3)
    return r, math.tanh(centre - spread), math.tanh(centre + spread)


def runs(owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entries of one owner stand together: the owners in their order, and where the entries of each begin and end."""
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if len(owner) else np.zeros(0, np.int64)
    return owner[first], np.append(first, len(owner))


@njit(cache=True, nogil=True)
def correlations(starts, x, y):  # type: ignore[no-untyped-def]
    """Pearson's r over the pairs of each run, 0 where one side does not vary."""
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
        if spread > 1e-9 * max(n, 1):  # what rounding leaves of values that are all alike
            out[run] = xy / spread
    return out


def fisher_low(r: np.ndarray, n: np.ndarray, z: float = Z95) -> np.ndarray:
    """Lower end of Fisher's interval of each r, −1 where there are too few pairs for one."""
    inside = np.arctanh(np.clip(r, -0.999999, 0.999999))
    return np.where(n > 3, np.tanh(inside - z / np.sqrt(np.maximum(n - 3, 1))), -1.0)


def clustered(successes: np.ndarray, trials: np.ndarray, baseline: float) -> Risk:
    """The rate over trials of which those of one target belong together (one entry per target).

    The trials are counted as the number of independent ones that would leave the rate as uncertain as the
    differences between targets do (Kish's effective sample size): never more than were made; where targets do
    not differ at all, as many as there are targets.
    """
    tried, n = int((trials > 0).sum()), float(trials.sum())
    if not tried:
        return Risk(0.0, 0, baseline)
    rate = float(successes.sum()) / n
    spread = float(((successes - rate * trials) ** 2).sum()) * tried / max(1, tried - 1) / n**2
    alike = spread <= 0 or not 0 < rate < 1
    effective = tried if alike else max(1, min(int(n), int(rate * (1 - rate) / spread)))
    return Risk(rate * effective, effective, baseline)
